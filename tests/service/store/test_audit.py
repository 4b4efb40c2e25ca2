"""The audit says who had which marker written, and is only added to."""

from __future__ import annotations

import pytest

from service.access.actions import Outcome
from service.domain.partitions.facts import MarkerType
from service.store import audit_events
from service.store.audit_events import Attempt
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS

ATTEMPT = Attempt(NOW_MS, "0123", "ops", True, MarkerType.COMMIT, "orders", 3, 7, 2, 5, 100, Outcome.DRY_RUN, None)


def test_attempts_on_a_transaction_are_told_the_newest_first(cluster: Cluster) -> None:
    """Two drivers and a service may be at it; none of them needs the lease."""
    executed = ATTEMPT._replace(at_ms=NOW_MS - 5, dry_run=False, outcome=Outcome.UNKNOWN, error="no\nleader")
    others = ATTEMPT._replace(producer_id=8), ATTEMPT._replace(partition=4), ATTEMPT._replace(start_offset=99)
    for attempt in (ATTEMPT, executed, *others):
        audit_events.record_attempt(cluster.engine, cluster.id, attempt)
    with cluster.engine.connect() as connection:
        reported = audit_events.of_subject(connection, cluster.id, "orders", 3, 7, 100)
        assert reported == [executed._replace(error="no\\nleader"), ATTEMPT]
        assert len(audit_events.of_subject(connection, cluster.id, "orders", 3, 7)) == 3
        assert audit_events.of_subject(connection, cluster.id + 1, "orders", 3, 7) == []


WRITE = ATTEMPT._replace(dry_run=False, outcome=Outcome.BEGUN)
DONE = {word: WRITE._replace(outcome=word) for word in (Outcome.WRITTEN, Outcome.REFUSED, Outcome.UNKNOWN)}
LATER_MS = NOW_MS + audit_events.OUTCOME_WITHIN_MS


@pytest.mark.parametrize(
    ("attempts", "now_ms", "expected"),
    [
        ([], NOW_MS, False),
        ([ATTEMPT], NOW_MS, False),
        ([DONE[Outcome.WRITTEN], WRITE], NOW_MS, True),
        ([DONE[Outcome.REFUSED], WRITE], NOW_MS, False),
        ([DONE[Outcome.UNKNOWN], WRITE], LATER_MS, True),
        ([WRITE], NOW_MS + 1, None),
        ([WRITE], LATER_MS, False),
        ([DONE[Outcome.REFUSED], WRITE, WRITE], NOW_MS, None),
        ([DONE[Outcome.REFUSED], WRITE, WRITE], LATER_MS, False),
        ([DONE[Outcome.REFUSED], DONE[Outcome.WRITTEN], WRITE, WRITE], LATER_MS, True),
    ],
    ids=[
        "nobody tried",
        "a dry run",
        "written",
        "refused",
        "sent, and never answered: it may have come late",
        "under way",
        "begun, and the service died",
        "one of two is under way",
        "one of two refused, the other died",
        "one of two came first",
    ],
)
def test_a_marker_is_ours_if_it_was_sent(attempts: list[Attempt], now_ms: int, expected: bool | None) -> None:
    assert audit_events.is_marker_ours(attempts, True, now_ms) is expected


def test_a_marker_of_the_other_kind_is_somebody_elses() -> None:
    """The abort of a committed transaction must not be hidden behind our COMMIT."""
    attempts = [DONE[Outcome.WRITTEN], WRITE]
    assert audit_events.is_marker_ours(attempts, False, NOW_MS) is False
    assert audit_events.is_marker_ours(attempts, None, NOW_MS) is True

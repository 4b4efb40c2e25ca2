"""Tests that a bug of brokers is named as the cause of a missing marker, unless all brokers are known to have releases
without the bug. If it is not known whether a broker has the bug, the text says so."""

from __future__ import annotations

from typing import Any

import pytest

from service.domain.worlds.transactions import LogHistory, Range
from service.store.clusters import describe
from tests.helpers.builders.entry_facts import facts_of
from tests.service.store.conftest import only_on
from tests.service.store.logs import NOW_MS
from tests.service.store.looks import entry as open_entry
from tests.spark_jobs.judge.test_open_entries import NO_TRANSACTION, Lab, lab

pytestmark = only_on("sqlite")
__all__ = ["lab"]

OF_44, OF_43, OF_42, OF_39, LATER = 33, 30, 28, 21, 34
SAYS_SO = "coordinators of Kafka 4.3.0, 4.3.1 and 4.4.0 skip the marker of a partition without a leader (KAFKA-20734)"
SAYS_IF = f"{SAYS_SO}; it is not known whether these brokers do"


def of_levels(*levels: int | None) -> list[dict[str, Any]]:
    return [
        {"id": n, "host": f"kafka-{n}", "port": 9092, "newest_metadata_version": level}
        for n, level in enumerate(levels)
    ]


def cause(lab: Lab, decision: str, brokers: list[dict[str, Any]] | None) -> str:
    if brokers is not None:
        described = {"brokers": brokers, "features": {}, "configs": {}}
        describe(lab.cluster.engine, lab.cluster.id, described, NOW_MS)
    lab.facts = facts_of(decision, 7, 0, 100, NOW_MS)
    found = lab.confirmed()
    assert found.observation.decision == decision
    text, _, _ = found.observation.evidence[-1].text.partition(" Decision:")
    return text


@pytest.mark.parametrize("decision", ["commit", "abort"])
@pytest.mark.parametrize(
    ("brokers", "said"),
    [
        (of_levels(OF_43, OF_43), SAYS_SO),
        (of_levels(OF_44), SAYS_SO),
        (of_levels(OF_42, OF_43), SAYS_SO),
        (of_levels(OF_42, OF_39), None),
        (of_levels(LATER), SAYS_IF),
        (of_levels(OF_39, LATER), SAYS_IF),
        (of_levels(OF_42, None), SAYS_IF),
        (of_levels(), SAYS_IF),
        ([{"id": 1, "host": "kafka-1", "port": 9092}], SAYS_IF),
        (None, SAYS_IF),
    ],
    ids=[
        "4.3",
        "4.4",
        "one of 4.3",
        "older",
        "a later release than txnscope knows",
        "one of a later release than txnscope knows",
        "one not reported",
        "no broker",
        "reported by an older txnscope",
        "not described",
    ],
)
def test_a_bug_is_named_only_where_the_brokers_have_it(
    lab: Lab, decision: str, brokers: list[dict[str, Any]] | None, said: str | None
) -> None:
    reported = cause(lab, decision, brokers)
    assert reported.startswith("its marker was never written here")
    if said is None:
        assert "KAFKA-20734" not in reported
    else:
        assert said in reported
        assert ("not known" in reported) == (said == SAYS_IF)


@pytest.mark.parametrize("coordinator_epoch", [-1, 3], ids=["no marker yet", "behind a marker"])
def test_an_unknown_decision_has_no_cause(lab: Lab, coordinator_epoch: int) -> None:
    """A committed transaction may have written the entry. In this case the partition was added, and the entry is no
    late write. So no cause is named."""
    lab.facts = NO_TRANSACTION._replace(history=LogHistory(0, 10, (), frozenset(), (Range(0, 5),)))
    lab.entry = open_entry(coordinator_epoch=coordinator_epoch)
    found = lab.confirmed()
    assert found.observation.decision == "unknown"
    assert found.observation.evidence[-1].text.startswith("why it hangs is not known.")


def test_records_of_no_transaction_were_never_added_or_came_late(lab: Lab) -> None:
    found = lab.confirmed()
    assert found.observation.decision == "none"
    assert found.observation.evidence[-1].text.startswith(
        "written after the marker of its transaction, or without adding the"
    )

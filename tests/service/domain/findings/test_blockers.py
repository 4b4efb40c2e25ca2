"""Tests of the blocker of a stalled partition, and of whether all open entries of the partition can be judged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from service.domain.findings.blockers import (
    CONFIRMATION_TAKES_MS,
    SETTLED_MS,
    YOUNG_MS,
    blocker_of,
    unreplicated,
    why_not_judged,
)
from service.domain.partitions.facts import FirstBatch
from service.domain.partitions.open_entries import Entry, Relation, RelationKind
from service.domain.partitions.state import PartitionState
from service.domain.reasons.reason import Reason
from service.domain.reasons.unjudged import BeingConfirmed, LogUnread, NotAllRead, NotReadYet, ProducerUnknown
from service.domain.transaction_log import states
from tests.helpers.reasons import denied
from tests.service.domain.findings.builders import with_record
from tests.service.domain.findings.test_open_entries import OWNER

SINCE_MS = 1_000_000
NOW_MS = SINCE_MS + 60_000
FIRST = FirstBatch(100, 7, 3, True, False, SINCE_MS, SINCE_MS)
STALL = PartitionState(
    topic="t",
    partition=0,
    topic_id="T",
    leader=1,
    leader_epoch=5,
    log_start=10,
    last_stable_offset=100,
    high_watermark=110,
    observed_at_ms=NOW_MS,
    stalled_since_ms=SINCE_MS,
    answered_at_ms=NOW_MS,
    read_at_ms=SINCE_MS + 500,
    read_lso=100,
    described=True,
    first=FIRST,
)


def entry(producer_id: int = 7, start: int = 100, first_seen_ms: int = SINCE_MS) -> Entry:
    return Entry("t", 0, producer_id, 3, start, 0, SINCE_MS, None, None, first_seen_ms, NOW_MS)


def test_the_entry_of_the_batch_at_the_lso_is_the_blocker() -> None:
    assert blocker_of(STALL, [entry(8, 105), entry()]) == entry()


@pytest.mark.parametrize(
    "changed",
    [
        {"log_start": 100, "described": False},
        {"log_start": 101, "described": False},
        {"log_start": 99, "last_stable_offset": 99, "read_lso": 99},
        {"last_stable_offset": 101},
        {"read_at_ms": None},
        {"first": None},
        {"first": FIRST._replace(is_control=True)},
        {"first": FIRST._replace(is_transactional=False)},
        {"first": FIRST._replace(producer_id=9)},
    ],
)
def test_an_uncertain_entry_is_not_called_the_blocker(changed: dict[str, Any]) -> None:
    assert blocker_of(replace(STALL, **changed), [entry()]) is None


@pytest.mark.parametrize(("log_start", "lso"), [(100, 100), (105, 105), (105, 103)])
def test_at_the_log_start_the_leader_reports_the_oldest_transaction(log_start: int, lso: int) -> None:
    """If the LSO is at or below the log start, the blocker is the oldest transaction in the leader's answer.

    A topic's first transaction begins at the log start. If retention has removed the first record of a transaction,
    Kafka 3.9 and 4.3 report different LSOs.
    """
    stall = replace(STALL, log_start=log_start, last_stable_offset=lso, read_lso=lso)
    assert blocker_of(stall, [entry(8, 107), entry()]) == entry()


def test_an_entry_that_begins_elsewhere_is_no_blocker() -> None:
    assert blocker_of(STALL, [entry(start=99), entry(start=101)]) is None


def test_an_entry_closed_on_the_leader_below_a_fixed_lso_is_not_replicated() -> None:
    closed = unreplicated(STALL, [entry(8, 105)], NOW_MS)
    assert closed is not None
    assert (closed.producer_id, closed.start_offset, closed.first_seen_ms) == (7, 100, SINCE_MS)


@pytest.mark.parametrize(
    ("changed", "entries"),
    [
        ({"described": False}, ()),
        ({"first": None}, ()),
        ({"first": FIRST._replace(is_control=True)}, ()),
        ({"log_start": 100}, ()),
        ({"last_stable_offset": 101}, ()),
        ({"read_at_ms": NOW_MS - SETTLED_MS + 1}, ()),
        ({}, (entry(),)),
        ({}, (entry(8, 90),)),
    ],
)
def test_an_incomplete_or_recent_sample_reports_no_unreplicated_marker(
    changed: dict[str, Any], entries: tuple[Entry, ...]
) -> None:
    """No unreplicated marker is reported in these cases either: the LSO is the log start, the batch at the LSO is a
    control batch, or an open entry begins at or below the LSO."""
    assert unreplicated(replace(STALL, **changed), entries, NOW_MS) is None


def test_a_stall_is_judged_when_each_of_its_entries_is_judged() -> None:
    reported = [(entry(), Relation(RelationKind.OPEN, None)), (entry(8, 105), Relation(RelationKind.HANGING, None))]
    assert why_not_judged(STALL, reported, NOW_MS) is None
    reported[1] = entry(8, 105), Relation(RelationKind.UNKNOWN, None, LogUnread())
    assert why_not_judged(STALL, reported, NOW_MS) == ProducerUnknown(8, LogUnread())


def test_an_entry_first_seen_a_moment_ago_may_be_unknown() -> None:
    young = entry(8, 105, NOW_MS - YOUNG_MS + 1)
    assert why_not_judged(STALL, [(young, Relation(RelationKind.UNKNOWN, None, LogUnread()))], NOW_MS) is None
    assert why_not_judged(STALL, [(young, Relation(RelationKind.UNKNOWN, None, LogUnread()))], NOW_MS + 1) is not None


def test_an_entry_that_awaits_confirmation_leaves_a_stall_judged() -> None:
    """A live producer may still take over an entry. The partition stays judged until the confirmation of the entry is
    due."""
    looked_at = entry(7, 105, NOW_MS - CONFIRMATION_TAKES_MS + 1)
    living = with_record(OWNER, state=states.COMPLETE_COMMIT, producer_epoch=3)._replace(partitions=())
    relation = Relation(RelationKind.UNKNOWN, living, BeingConfirmed(None), is_unowned=True, holder=living)
    assert why_not_judged(STALL, [(looked_at, relation)], NOW_MS) is None
    assert why_not_judged(STALL, [(looked_at, relation)], NOW_MS + 1) is not None
    for owner in (None, with_record(living, producer_epoch=4), with_record(living, state=states.EXPIRED)):
        assert why_not_judged(STALL, [(looked_at, relation._replace(owner=owner, holder=owner))], NOW_MS) is not None


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"read_at_ms": None}, NotReadYet()),
        ({"read_lso": 99}, NotReadYet()),
        ({"described": False}, NotAllRead(None)),
        ({"described": False, "read_why": denied("t")}, NotAllRead(denied("t"))),
        ({"stalled_since_ms": NOW_MS - YOUNG_MS + 1, "read_at_ms": None}, None),
    ],
)
def test_a_stall_that_was_not_read_is_not_judged(changed: dict[str, Any], why: Reason | None) -> None:
    assert why_not_judged(replace(STALL, **changed), [], NOW_MS) == why

"""Tests of the relation between an open entry and its owner. The relation determines how the entry will end."""

from __future__ import annotations

import pytest

from service.domain.partitions.open_entries import ADOPTED_AFTER_MS, Entry, Owner, Relation, owner_of, relate
from service.domain.reasons.unjudged import LogUnread, OwnerLeftBehind
from service.domain.transaction_log import states
from service.domain.transaction_log.deadlines import ABORT_SLACK_MS
from service.domain.transaction_log.facts import NO_RECORD
from service.domain.transaction_log.known_log import KnownLog, Limits
from tests.service.domain.findings.builders import with_record

NOW_MS = 1_790_000_000_000
DUE_AFTER_MS = 60_000 + 10_000 + ABORT_SLACK_MS
PLACE = ("orders", 3)

ENTRY = Entry("orders", 3, 7, 4, 120, -1, -1, None, None, NOW_MS - 9_000, NOW_MS - 100)
OWNER = Owner(
    transactional_id=b"pay",
    log_partition=0,
    generation=0,
    record=NO_RECORD._replace(
        offset=55,
        timestamp_ms=NOW_MS - 10_000,
        leader_epoch=0,
        state=states.ONGOING,
        producer_id=7,
        producer_epoch=4,
        timeout_ms=60_000,
        start_ms=NOW_MS - 10_000,
        last_update_ms=NOW_MS - 10_000,
        client_transaction_version=0,
    ),
    partitions=(PLACE,),
    first_seen_ms=NOW_MS - 90_000,
    last_seen_ms=NOW_MS - 10_000,
    first_epoch=0,
    last_epoch=4,
    ended_offset=None,
    ended_state=None,
    ended_value=None,
)
KNOWN = KnownLog(Limits(10_000, 604_800_000, 3_600_000, frozenset()), {0: NOW_MS}, {0: 1}, True)
NOT_READ = KNOWN._replace(known_until_ms={}, is_complete=False)


def related(owner: Owner | None, log: KnownLog = KNOWN, *, is_hanging: bool = False) -> Relation:
    return relate(ENTRY, [] if owner is None else [owner], log, is_hanging=is_hanging)


@pytest.mark.parametrize(
    ("owner", "word"),
    [
        (OWNER, "open"),
        (with_record(OWNER, producer_epoch=9), "open"),  # a marker with the same epoch or a higher one closes the entry
        (with_record(OWNER, timeout_ms=2_147_483_647, start_ms=1), "open"),  # a two-phase transaction has no timeout
        (with_record(OWNER, start_ms=NOW_MS - DUE_AFTER_MS + 1), "open"),
        (with_record(OWNER, start_ms=NOW_MS - DUE_AFTER_MS), "overdue"),
        (with_record(OWNER, state=states.PREPARE_COMMIT), "completing"),
        (with_record(OWNER, state=states.PREPARE_ABORT, producer_epoch=5), "completing"),
    ],
)
def test_an_entry_that_its_owner_will_end_is_not_unowned(owner: Owner, word: str) -> None:
    relation = related(owner)
    assert (relation.kind, relation.is_unowned, relation.why) == (word, False, None)
    assert related(owner, NOT_READ, is_hanging=True).is_unowned is False


@pytest.mark.parametrize(
    ("first_seen_ms", "seen_at_ms", "kind"),
    [
        (-ADOPTED_AFTER_MS - 1, ADOPTED_AFTER_MS + 1, "adopted"),
        (-ADOPTED_AFTER_MS, ADOPTED_AFTER_MS + 1, "open"),  # clocks differ, so the owner may have written the entry
        (-ADOPTED_AFTER_MS - 1, ADOPTED_AFTER_MS, "open"),  # the entry may have ended after this sample
        (-ADOPTED_AFTER_MS - 1, -ADOPTED_AFTER_MS, "open"),
    ],
)
def test_records_are_left_over_if_they_were_open_before_and_after_a_start(
    first_seen_ms: int, seen_at_ms: int, kind: str
) -> None:
    """Records are left over if they are open in a sample before the start of the owner's transaction, and in a sample
    after it. One of the samples alone proves nothing."""
    start_ms = OWNER.record.start_ms
    entry = ENTRY._replace(first_seen_ms=start_ms + first_seen_ms, seen_at_ms=start_ms + seen_at_ms)
    assert relate(entry, [OWNER], KNOWN, is_hanging=False).kind == kind


@pytest.mark.parametrize(
    "owner",
    [
        None,
        with_record(OWNER, state=states.COMPLETE_ABORT)._replace(partitions=()),
        with_record(OWNER, state=states.EMPTY)._replace(partitions=()),
        with_record(OWNER, state=states.EXPIRED, producer_id=-1)._replace(partitions=()),
        OWNER._replace(partitions=(("orders", 4), ("other", 3))),
        with_record(OWNER, producer_epoch=3),
        with_record(OWNER, producer_id=8),
    ],
)
def test_an_entry_that_no_owner_will_end_is_unowned(owner: Owner | None) -> None:
    """If no owner will end an entry, the entry is `unknown`. After a hang is confirmed, the entry is `hanging`. While
    no part of the transaction log is read to its end, the entry does not count as unowned."""
    relation = related(owner)
    assert (relation.kind, relation.is_unowned) == ("unknown", True)
    assert related(owner, is_hanging=True).kind == "hanging"
    unread = related(owner, NOT_READ)
    assert (unread.kind, unread.is_unowned) == ("unknown", False)
    assert "not read to its end" in str(unread.why)


def test_an_undecodable_record_of_the_owner_leaves_the_entry_unknown() -> None:
    relation = related(with_record(OWNER, state=states.UNKNOWN))
    assert (relation.kind, relation.is_unowned) == ("unknown", False)
    assert "cannot be decoded" in str(relation.why)


def test_an_entry_without_owner_is_unowned_only_after_a_complete_read() -> None:
    partly = KNOWN._replace(is_complete=False)
    assert related(with_record(OWNER, state=states.EMPTY)._replace(partitions=()), partly).is_unowned
    assert not related(None, partly).is_unowned


def test_the_present_owner_of_a_producer_id_comes_before_a_former_one() -> None:
    before = with_record(OWNER, producer_id=99)._replace(transactional_id=b"old", last_seen_ms=NOW_MS)
    assert owner_of(ENTRY, [before, OWNER]) == OWNER
    assert owner_of(ENTRY, [before]) == before


def test_an_entry_whose_owner_is_left_in_an_old_log_partition_is_unknown() -> None:
    """After partitions were added to the transaction log, a restarted coordinator does not load the id from its old
    partition."""
    left = OWNER._replace(is_left_behind=True)
    before, after = related(left), related(with_record(left, start_ms=NOW_MS - DUE_AFTER_MS))
    assert (before.kind, before.why, before.is_unowned) == ("unknown", OwnerLeftBehind(0), False)
    assert (after.kind, after.why, after.is_unowned) == ("unknown", OwnerLeftBehind(0), True)
    assert related(left, is_hanging=True).kind == "hanging"
    assert related(left, NOT_READ).why == LogUnread()
    without_timeout = with_record(left, timeout_ms=2_147_483_647, start_ms=1)
    assert related(without_timeout).is_unowned is False
    assert related(with_record(left, state=states.PREPARE_COMMIT)).kind == "completing"


def test_an_id_that_cannot_have_written_an_entry_is_said_to_be_known() -> None:
    higher = relate(ENTRY, [with_record(OWNER, producer_epoch=3)], KNOWN, is_hanging=False)
    assert str(higher.why) == (
        "the transactional.id that owns its producer id cannot have written it; it is being checked again"
    )
    assert "no owner of its producer id is known" in str(related(None).why)

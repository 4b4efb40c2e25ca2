"""Tests of consumer groups behind an open transaction, by committed offset, LSO, members and time without progress.

The last tests are about the transaction that blocks a group.
"""

from __future__ import annotations

from typing import Any

import pytest

from service.domain.partitions.blocked_groups import (
    NO_GROUPS,
    STALLED_AFTER_MS,
    STOPPED_AFTER_MS,
    AffectedGroup,
    BlockedGroupIndex,
    GroupRelation,
    affected_groups,
)
from service.domain.partitions.group_offsets import (
    OFFSETS_TOPIC,
    GroupOffset,
    IsolationLevel,
    LsoSample,
    offsets_partition,
)
from service.domain.transaction_log.causes import Confidence

NOW_MS = 1_790_000_000_000
SINCE_MS = NOW_MS - 60_000
LSO, HW = 100, 150
STANDS = LsoSample(LSO, HW, SINCE_MS)
NOTHING_LEFT: dict[str, Any] = {"has_records_ahead": False, "lso": LSO}
UNREAD: dict[str, Any] = {"has_records_ahead": True, "records_ahead_since_ms": NOW_MS - STOPPED_AFTER_MS, "lso": LSO}
"""Fields of a group that has had unread records for STOPPED_AFTER_MS. Only `read_uncommitted` consumers get these
records."""

PLACE = "orders", 0
STOPPED, WILL_STOP, UNKNOWN = GroupRelation.STOPPED, GroupRelation.WILL_STOP, GroupRelation.UNKNOWN
INACTIVE, READS, UNSTABLE = GroupRelation.INACTIVE, GroupRelation.READS_UNCOMMITTED, GroupRelation.UNSTABLE_OFFSETS
COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
LIKELY, CERTAIN = Confidence.LIKELY, Confidence.CERTAIN


def offset(committed: int, stood_ms: int = 0, **fields: Any) -> GroupOffset:
    group_offset = GroupOffset(
        "billing", *PLACE, committed, 2, False, observed_at_ms=NOW_MS, unchanged_since_ms=NOW_MS - stood_ms
    )
    return group_offset._replace(**fields)


def seen(group_offset: GroupOffset, ends: LsoSample = STANDS, **more: LsoSample) -> list[AffectedGroup]:
    places = {PLACE: ends} | {(OFFSETS_TOPIC, int(name.removeprefix("p"))): more[name] for name in more}
    return affected_groups([group_offset], places, 50 if more else None, NOW_MS)


@pytest.mark.parametrize(
    ("group_offset", "relation", "confidence"),
    [
        (offset(LSO), STOPPED, LIKELY),  # the group may have read on without a commit yet
        # the group may read uncommitted records, and be stuck at the LSO for another reason
        (offset(LSO, 10 * STOPPED_AFTER_MS), STOPPED, LIKELY),
        (offset(LSO, STOPPED_AFTER_MS, members=None), STOPPED, LIKELY),
        (offset(LSO - 1), WILL_STOP, LIKELY),
        (offset(LSO - 1, STOPPED_AFTER_MS - 1), WILL_STOP, LIKELY),
        (offset(LSO - 1, **NOTHING_LEFT), STOPPED, LIKELY),  # only a marker lies between the offset and the LSO
        (offset(LSO - 1, STOPPED_AFTER_MS, **NOTHING_LEFT), STOPPED, LIKELY),
        # the records were counted up to another LSO
        (offset(LSO - 1, STOPPED_AFTER_MS, has_records_ahead=False, lso=LSO - 1), UNKNOWN, LIKELY),
        # records are left to read, or may be: the group has stopped for another reason
        (offset(0, STOPPED_AFTER_MS), UNKNOWN, LIKELY),
        (offset(0, STOPPED_AFTER_MS, has_records_ahead=True, lso=LSO), UNKNOWN, LIKELY),
        (offset(0, STOPPED_AFTER_MS - 1, has_records_ahead=True, lso=LSO), WILL_STOP, LIKELY),
        # above the LSO, only progress shows that the group reads uncommitted records
        (offset(LSO + 1), UNKNOWN, LIKELY),
        # the partition has no record left to read
        (offset(HW, 10 * STOPPED_AFTER_MS), UNKNOWN, LIKELY),
        # the offset may also have been reset
        (offset(LSO + 1, lso=LSO, advances=1), READS, LIKELY),
        (offset(LSO + 1, STOPPED_AFTER_MS, lso=LSO, advances=2), READS, CERTAIN),
        # the progress happened at another LSO
        (offset(LSO + 1, lso=LSO - 9, advances=2), UNKNOWN, LIKELY),
        (offset(LSO + 1, STOPPED_AFTER_MS, **UNREAD), STOPPED, LIKELY),
        (offset(LSO + 1, STOPPED_AFTER_MS, **UNREAD | {"members": None}), UNKNOWN, LIKELY),
        (offset(LSO + 1, STOPPED_AFTER_MS, **UNREAD | {"records_ahead_since_ms": NOW_MS - 1}), UNKNOWN, LIKELY),
        # groups with members and without an offset
        (offset(-1, STOPPED_AFTER_MS - 1), UNKNOWN, LIKELY),
        (offset(-1, STOPPED_AFTER_MS), STOPPED, LIKELY),
        (offset(-1, STOPPED_AFTER_MS, members=None), UNKNOWN, LIKELY),
        (offset(-1, STOPPED_AFTER_MS, members=0), INACTIVE, CERTAIN),
        # share groups
        (offset(LSO, STOPPED_AFTER_MS, isolation=COMMITTED), STOPPED, CERTAIN),
        (offset(HW, isolation=COMMITTED), STOPPED, LIKELY),
        (offset(0, isolation=COMMITTED, **NOTHING_LEFT), STOPPED, LIKELY),
        (offset(0, STOPPED_AFTER_MS, isolation=COMMITTED), UNKNOWN, LIKELY),
        (
            offset(-1, STOPPED_AFTER_MS, isolation=COMMITTED),
            STOPPED,
            LIKELY,
        ),
        *(
            (
                offset(at, STOPPED_AFTER_MS, isolation=UNCOMMITTED),
                READS,
                CERTAIN,
            )
            for at in (-1, 0, LSO, HW)
        ),
        (offset(LSO, STOPPED_AFTER_MS, isolation=COMMITTED, members=0), INACTIVE, CERTAIN),
        (offset(LSO, STOPPED_AFTER_MS, members=0), INACTIVE, CERTAIN),
        (offset(HW, members=0), INACTIVE, CERTAIN),
    ],
)
def test_the_offset_of_a_group_shows_its_relation_to_a_stalled_lso(
    group_offset: GroupOffset, relation: str, confidence: str
) -> None:
    (victim,) = seen(group_offset)
    assert (victim.relation, victim.confidence, victim.stalled_partition) == (relation, confidence, PLACE)
    assert victim.is_blocked == (relation in (STOPPED, WILL_STOP))
    assert victim.offsets_partition is None


@pytest.mark.parametrize("committed", [0, HW - 1, HW])
def test_no_group_waits_where_the_lso_is_at_the_high_watermark(committed: int) -> None:
    """If the LSO is at the high watermark, no transaction blocks the group. The group may be idle on a partition that
    ends in a marker (the lag stays 1), or be stuck for another reason."""
    assert seen(offset(committed, STOPPED_AFTER_MS), LsoSample(HW, HW, None)) == []
    assert seen(offset(committed, STOPPED_AFTER_MS), LsoSample(HW, HW, SINCE_MS)) == []


def test_short_transactions_block_no_group() -> None:
    assert seen(offset(LSO), LsoSample(LSO, HW, NOW_MS - STALLED_AFTER_MS + 1)) == []
    assert len(seen(offset(LSO), LsoSample(LSO, HW, NOW_MS - STALLED_AFTER_MS))) == 1


def test_a_share_group_certainly_waits_once_the_stall_is_long() -> None:
    """A share group at the LSO is certainly blocked only if the stall has been long. The group may have been idle at
    this offset before the stall."""
    idle = offset(LSO, 100 * STOPPED_AFTER_MS, isolation=COMMITTED)
    young = LsoSample(LSO, HW, NOW_MS - STOPPED_AFTER_MS + 1)
    assert [group.confidence for group in seen(idle, young)] == [LIKELY]
    assert [group.confidence for group in seen(idle)] == [CERTAIN]


def test_an_offset_observed_before_the_stall_says_nothing() -> None:
    assert seen(offset(LSO, observed_at_ms=SINCE_MS - 1)) == []
    assert seen(offset(-1, observed_at_ms=SINCE_MS - 1)) == []


def test_members_without_an_offset_wait_only_while_the_stall_lasts() -> None:
    young = LsoSample(LSO, HW, NOW_MS - STOPPED_AFTER_MS + 1)
    assert [group.relation for group in seen(offset(-1, STOPPED_AFTER_MS), young)] == [UNKNOWN]
    assert seen(offset(-1, STOPPED_AFTER_MS), LsoSample(HW, HW, None)) == []
    # the group has read, and its first commit is pending
    assert seen(offset(-1, STOPPED_AFTER_MS, is_unstable=True)) == []


def test_an_offset_above_an_lso_that_was_sampled_earlier_says_nothing() -> None:
    """The offset was observed after the LSO. The transaction may have ended before the offset was observed, so the
    group may have read on."""
    assert seen(offset(HW, observed_at_ms=NOW_MS + 1)) == []
    assert seen(offset(LSO, observed_at_ms=NOW_MS + 1))[0].relation == STOPPED
    assert seen(offset(HW, observed_at_ms=NOW_MS))[0].relation == UNKNOWN


def unstable(**fields: Any) -> GroupOffset:
    return offset(7, is_unstable=True, **fields)


def test_pending_offsets_block_a_group_whose_data_partition_is_fine() -> None:
    """The LSO of the group's partition of __consumer_offsets is stalled, and the LSO of the data partition is not."""
    home = offsets_partition("billing", 50)
    (victim,) = seen(
        unstable(), LsoSample(HW, HW, None), **{f"p{home}": LsoSample(9, 12, SINCE_MS), "p49": LsoSample(5, 5, None)}
    )
    assert (victim.relation, victim.is_blocked) == (UNSTABLE, True)
    assert (victim.stalled_partition, victim.offsets_partition) == ((OFFSETS_TOPIC, home), home)
    assert victim.ends == LsoSample(HW, HW, None)
    assert (victim.is_pending, victim.waits_for_producer_id) == (True, None)
    (idle,) = seen(
        unstable(members=0, producer_id=7), LsoSample(HW, HW, None), **{f"p{home}": LsoSample(9, 12, SINCE_MS)}
    )
    assert (idle.relation, idle.is_blocked, idle.waits_for_producer_id) == (INACTIVE, False, 7)


def test_pending_offsets_below_a_moving_lso_block_no_group() -> None:
    """A healthy consume-process-produce application nearly always has pending offsets. The pending offsets do not block
    the group, because the LSO of the partition of `__consumer_offsets` advances."""
    home = offsets_partition("billing", 50)
    assert seen(unstable(), LsoSample(HW, HW, None), **{f"p{home}": LsoSample(9, 12, NOW_MS)}) == []
    assert seen(unstable(), LsoSample(HW, HW, None), **{f"p{home}": LsoSample(9, 9, None)}) == []
    (by_data,) = seen(unstable(producer_id=7), **{f"p{home}": LsoSample(9, 9, None)})
    assert (by_data.relation, by_data.is_pending, by_data.waits_for_producer_id) == (
        WILL_STOP,
        False,
        None,
    )


def test_affected_groups_are_sorted_by_group_and_partition() -> None:
    rows = [offset(LSO, group=name, partition=number) for name in ("b", "a") for number in (1, 0)]
    ends = {("orders", 0): STANDS, ("orders", 1): STANDS}
    assert [affected_group.key for affected_group in affected_groups(rows, ends, None, NOW_MS)] == [
        ("a", "orders", 0),
        ("a", "orders", 1),
        ("b", "orders", 0),
        ("b", "orders", 1),
    ]


@pytest.mark.parametrize(
    ("group", "partitions", "expected"),
    [
        ("", 50, 0),
        ("console-consumer-1", 50, 24),
        ("billing", 50, 9),
        ("grüße-😀", 50, 27),
        ("polygenelubricants", 50, 0),  # its hash is -2^31, which has no positive counterpart
    ],
)
def test_the_offsets_partition_of_a_group_is_the_one_that_java_computes(
    group: str, partitions: int, expected: int
) -> None:
    """The expected values are those that Java prints for `Math.abs(group.hashCode()) % partitions`."""
    assert offsets_partition(group, partitions) == expected


# the transaction that blocks a group


AT_ORDERS, HOME = ("orders", 0), (OFFSETS_TOPIC, 9)
PID, OTHER = 7, 8


def behind_lso(relation: GroupRelation, group: str) -> AffectedGroup:
    offset = GroupOffset(group, *AT_ORDERS, 100, 2, False, observed_at_ms=NOW_MS, unchanged_since_ms=NOW_MS)
    return AffectedGroup(offset, LsoSample(100, 150, NOW_MS), relation, CERTAIN, AT_ORDERS, 100, NOW_MS)


def pending(
    group: str, producer_id: int | None, relation: GroupRelation = UNSTABLE, partition: int = 0
) -> AffectedGroup:
    offset = GroupOffset(
        group, "orders", partition, 5, 2, True, producer_id, observed_at_ms=NOW_MS, unchanged_since_ms=NOW_MS
    )
    return AffectedGroup(offset, None, relation, CERTAIN, HOME, 100, NOW_MS)


def test_a_group_stopped_at_an_lso_waits_for_any_transaction_there() -> None:
    groups = BlockedGroupIndex(
        [
            behind_lso(STOPPED, "b"),
            behind_lso(WILL_STOP, "a"),
            behind_lso(INACTIVE, "idle"),
            behind_lso(STOPPED, "b"),
        ]
    )
    assert (
        groups.behind(AT_ORDERS)
        == groups.waiting_for([AT_ORDERS], PID)
        == groups.waiting_for([AT_ORDERS, HOME], OTHER)
        == ("a", "b")
    )
    assert groups.pending(AT_ORDERS, PID) == ()
    assert groups.behind(HOME) == NO_GROUPS.behind(AT_ORDERS) == ()


def test_a_pending_offset_waits_for_its_own_transaction() -> None:
    groups = BlockedGroupIndex([pending("eos", PID), pending("other", OTHER), pending("any", None)])
    assert groups.behind(HOME) == ("any", "eos", "other")
    assert groups.waiting_for([HOME], PID) == ("any", "eos")
    assert groups.waiting_for([HOME], OTHER) == ("any", "other")


def test_pending_offsets_do_not_block_a_group_without_members() -> None:
    idle, eos = pending("idle", PID, INACTIVE), pending("eos", PID, partition=3)
    groups = BlockedGroupIndex([idle, eos])
    assert groups.waiting_for([HOME], PID) == ("eos",)
    assert groups.pending(HOME, PID) == (eos, idle)
    assert (idle.offsets_partition, idle.waits_for_producer_id) == (HOME[1], PID)
    assert groups.pending(HOME, OTHER) == ()

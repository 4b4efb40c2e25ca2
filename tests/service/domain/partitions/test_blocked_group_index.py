"""Groups that a transaction blocks: by the partition that it holds up, or by the offsets that it has."""

from __future__ import annotations

from service.domain.partitions.blocked_groups import (
    NO_GROUPS,
    OFFSETS_TOPIC,
    AffectedGroup,
    BlockedGroupIndex,
    GroupOffset,
    GroupRelation,
    LsoSample,
)
from service.domain.transaction_log.causes import Confidence

NOW_MS = 1_790_000_000_000
ORDERS, HOME = ("orders", 0), (OFFSETS_TOPIC, 9)
PID, OTHER = 7, 8


def behind_lso(relation: GroupRelation, group: str) -> AffectedGroup:
    offset = GroupOffset(group, *ORDERS, 100, 2, False, observed_at_ms=NOW_MS, unchanged_since_ms=NOW_MS)
    return AffectedGroup(offset, LsoSample(100, 150, NOW_MS), relation, Confidence.CERTAIN, ORDERS, 100, NOW_MS)


def pending(
    group: str, producer_id: int | None, relation: GroupRelation = GroupRelation.UNSTABLE_OFFSETS, partition: int = 0
) -> AffectedGroup:
    offset = GroupOffset(
        group, "orders", partition, 5, 2, True, producer_id, observed_at_ms=NOW_MS, unchanged_since_ms=NOW_MS
    )
    return AffectedGroup(offset, None, relation, Confidence.CERTAIN, HOME, 100, NOW_MS)


def test_behind_an_lso_a_group_waits_for_whoever_holds_it() -> None:
    groups = BlockedGroupIndex(
        [
            behind_lso(GroupRelation.STOPPED, "b"),
            behind_lso(GroupRelation.WILL_STOP, "a"),
            behind_lso(GroupRelation.INACTIVE, "idle"),
            behind_lso(GroupRelation.STOPPED, "b"),
        ]
    )
    assert (
        groups.behind(ORDERS)
        == groups.waiting_for([ORDERS], PID)
        == groups.waiting_for([ORDERS, HOME], OTHER)
        == ("a", "b")
    )
    assert groups.pending(ORDERS, PID) == ()
    assert groups.behind(HOME) == NO_GROUPS.behind(ORDERS) == ()


def test_a_pending_offset_waits_for_the_transaction_that_has_it() -> None:
    groups = BlockedGroupIndex([pending("eos", PID), pending("other", OTHER), pending("any", None)])
    assert groups.behind(HOME) == ("any", "eos", "other")
    assert groups.waiting_for([HOME], PID) == ("any", "eos")
    assert groups.waiting_for([HOME], OTHER) == ("any", "other")


def test_pending_offsets_of_groups_without_members_block_nobody_yet() -> None:
    idle, eos = pending("idle", PID, GroupRelation.INACTIVE), pending("eos", PID, partition=3)
    groups = BlockedGroupIndex([idle, eos])
    assert groups.waiting_for([HOME], PID) == ("eos",)
    assert groups.pending(HOME, PID) == (eos, idle)
    assert (idle.offsets_partition, idle.waits_for_producer_id) == (HOME[1], PID)
    assert groups.pending(HOME, OTHER) == ()

"""Tests of the stored offsets of consumer groups: the last observation, and the time since which the offset is
unchanged."""

from __future__ import annotations

import pytest

from service.domain.partitions.group_offsets import GroupOffset
from service.store import lease
from service.store.errors import LeaseLost
from service.store.escaped_text import LONGEST_GROUP
from service.store.queries import partitions
from service.store.writers.groups import GroupWriter
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS


def seen(group: str = "readers", offset: int = 100, partition: int = 0, **more: object) -> GroupOffset:
    return GroupOffset(group, "orders", partition, offset, 2, False)._replace(**more)  # type: ignore[arg-type]


def groups(cluster: Cluster, *places: tuple[str, int]) -> list[GroupOffset]:
    with cluster.engine.connect() as connection:
        found = partitions.groups(connection, cluster.id)
    return [
        group_offset for group_offset in found if not places or (group_offset.topic, group_offset.partition) in places
    ]


@pytest.fixture
def writer(cluster: Cluster) -> GroupWriter:
    return GroupWriter(cluster.engine, cluster.lease)


def test_a_group_is_unchanged_since_its_offset_was_first_seen(cluster: Cluster, writer: GroupWriter) -> None:
    writer.replace([seen(), seen(partition=1, offset=5)], NOW_MS)
    writer.replace([seen(members=None), seen(partition=1, offset=6, is_unstable=True)], NOW_MS + 9)
    assert groups(cluster) == [
        GroupOffset("readers", "orders", 0, 100, None, False, observed_at_ms=NOW_MS + 9, unchanged_since_ms=NOW_MS),
        GroupOffset("readers", "orders", 1, 6, 2, True, observed_at_ms=NOW_MS + 9, unchanged_since_ms=NOW_MS + 9),
    ]


def advances(cluster: Cluster) -> int:
    (group_offset,) = groups(cluster)
    return group_offset.advances


def test_only_steps_above_the_lso_with_members_count_as_advances(cluster: Cluster, writer: GroupWriter) -> None:
    """A step from below the LSO to an offset above the LSO counts as a reset."""
    steps = [(50, 2, 60, 0), (70, 2, 60, 0), (70, 2, 60, 0), (80, 2, 60, 1), (90, 2, None, 1), (95, 2, 60, 2)]
    for at_ms, (offset, members, lso, expected) in enumerate(steps, NOW_MS):
        writer.replace([seen(offset=offset, members=members, lso=lso)], at_ms)
        assert advances(cluster) == expected, (offset, members, lso)
    writer.replace([seen(offset=96, members=0, lso=60)], NOW_MS + 100)
    assert advances(cluster) == 0, "members that join later may use another isolation level"
    writer.replace([seen(offset=200, lso=60)], NOW_MS + 101)
    assert advances(cluster) == 0, "the offset was set while the group had no members"
    writer.replace([seen(offset=210, lso=60)], NOW_MS + 102)
    writer.replace([seen(offset=220, lso=61)], NOW_MS + 103)
    assert advances(cluster) == 0, "the LSO has moved"


def test_the_start_of_unread_records_is_kept_while_the_offset_stays(cluster: Cluster, writer: GroupWriter) -> None:
    def since(at_ms: int, offset: int, ahead: bool | None) -> int | None:
        writer.replace([seen(offset=offset, has_records_ahead=ahead, lso=60)], at_ms)
        (one,) = groups(cluster)
        assert one.has_records_ahead == ahead
        return one.records_ahead_since_ms

    assert since(NOW_MS, 70, None) is None
    assert since(NOW_MS + 1, 70, True) == NOW_MS + 1
    assert since(NOW_MS + 2, 70, True) == NOW_MS + 1
    assert since(NOW_MS + 3, 71, True) == NOW_MS + 3
    assert since(NOW_MS + 4, 71, False) is None
    writer.replace([seen(offset=71)], NOW_MS + 5)
    (group_offset,) = groups(cluster)
    assert (group_offset.lso, group_offset.has_records_ahead) == (60, False), (
        "without a later sample, the last known answer stays"
    )
    writer.replace([seen(offset=72)], NOW_MS + 6)
    assert [row.has_records_ahead for row in groups(cluster)] == [None]


def test_the_producer_id_of_a_pending_offset_is_kept(cluster: Cluster, writer: GroupWriter) -> None:
    writer.replace([seen(is_unstable=True, producer_id=1 << 40)], NOW_MS)
    assert [group.producer_id for group in groups(cluster)] == [1 << 40]
    writer.replace([seen(is_unstable=True)], NOW_MS + 9)
    assert [(group.producer_id, group.unchanged_since_ms) for group in groups(cluster)] == [(None, NOW_MS)]


def test_an_unseen_group_is_removed_unless_it_could_not_be_requested(cluster: Cluster, writer: GroupWriter) -> None:
    writer.replace([seen("a"), seen("b"), seen("c"), seen("c", partition=1)], NOW_MS)
    writer.replace([seen("c")], NOW_MS + 9, unasked=["b"])
    assert [(group.group, group.partition, group.observed_at_ms) for group in groups(cluster)] == [
        ("b", 0, NOW_MS),
        ("c", 0, NOW_MS + 9),
    ]
    writer.replace([], NOW_MS + 10)
    assert groups(cluster) == []


def test_an_observation_older_than_the_stored_one_is_left_out(cluster: Cluster, writer: GroupWriter) -> None:
    writer.replace([seen()], NOW_MS)
    writer.replace([seen("late", 3)], NOW_MS - 1)
    assert [group.group for group in groups(cluster)] == ["readers"]


def test_a_query_returns_the_groups_of_the_requested_partitions(cluster: Cluster, writer: GroupWriter) -> None:
    writer.replace([seen(group, partition=n) for group in ("b", "a") for n in (0, 1, 2)], NOW_MS)
    found = groups(cluster, ("orders", 2), ("orders", 0))
    assert [(group_offset.group, group_offset.partition) for group_offset in found] == [
        ("a", 0),
        ("a", 2),
        ("b", 0),
        ("b", 2),
    ]


def test_any_group_name_that_kafka_accepts_can_be_stored(cluster: Cluster, writer: GroupWriter) -> None:
    names = ["nul\0", "x" * 32_000, "x" * 32_001, "\U0001f40c" * LONGEST_GROUP]
    writer.replace([seen(name) for name in names], NOW_MS)
    writer.replace([seen(name) for name in names[1:]], NOW_MS + 5, unasked=names[:1])
    found = groups(cluster)
    assert len({group_offset.group for group_offset in found}) == 4
    assert {group_offset.unchanged_since_ms for group_offset in found} == {NOW_MS}
    assert "nul\\x00" in {group_offset.group for group_offset in found}


def test_another_holder_of_the_lease_stops_the_writer(cluster: Cluster, writer: GroupWriter) -> None:
    assert lease.acquire(cluster.engine, cluster.id, "driver", NOW_MS) is not None
    with pytest.raises(LeaseLost):
        writer.replace([seen()], NOW_MS)
    assert groups(cluster) == []

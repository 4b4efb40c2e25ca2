"""Consumer groups at different positions relative to a stalled LSO, and groups on a partition that is not stalled."""

from __future__ import annotations

from service.domain.partitions.group_offsets import OFFSETS_TOPIC, GroupOffset, offsets_partition
from service.store.writers.groups import GroupWriter
from tests.helpers.partitions import END, LSO, WithPartitions, moving_partition, stalled_partition
from tests.helpers.stores import NOW_MS

HOME = offsets_partition("eos", 50)
"""The partition of `__consumer_offsets` that holds the offsets of the group `eos`."""
HOMES = [moving_partition(number, OFFSETS_TOPIC) for number in range(50) if number != HOME]


def group(
    name: str, offset: int, *, partition: int = 0, members: int | None = 2, is_unstable: bool = False
) -> GroupOffset:
    return GroupOffset(name, "orders", partition, offset, members, is_unstable)


WAITING = [
    group("at", LSO),
    group("below", LSO - 5, members=None),
    group("beyond", END),
    group("idle", LSO, members=0),
    group("healthy", END - 1, partition=1),
    group("eos", 7, partition=1, is_unstable=True),
    group("first", -1, partition=1, is_unstable=True),
]


def wait_behind(cluster: WithPartitions, *more: GroupOffset) -> None:
    """Stores the groups of WAITING and `more`. The LSOs of orders-0 and of the partition HOME are stalled. The LSOs of
    orders-1 and of the partitions in HOMES are not."""
    cluster.look(stalled_partition(), moving_partition(1), stalled_partition(HOME, OFFSETS_TOPIC), *HOMES)
    GroupWriter(cluster.engine, cluster.lease).replace([*WAITING, *more], NOW_MS)

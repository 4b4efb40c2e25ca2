"""Consumer groups behind open transactions. Each group has a different position relative to the LSO."""

from __future__ import annotations

from service.domain.partitions.group_offsets import OFFSETS_TOPIC, GroupOffset, offsets_partition
from service.store.writers.groups import GroupWriter
from tests.helpers.partitions import END, LSO, WithPartitions, moving_partition, stalled_partition
from tests.helpers.stores import NOW_MS

HOME = offsets_partition("eos", 50)
"""The partition that holds the offsets of the group `eos`."""
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
    """Stores the groups of WAITING and `more`. The LSOs of orders-0 and HOME are stalled; the LSO of orders-1 is
    not."""
    cluster.look(stalled_partition(), moving_partition(1), stalled_partition(HOME, OFFSETS_TOPIC), *HOMES)
    GroupWriter(cluster.engine, cluster.lease).replace([*WAITING, *more], NOW_MS)

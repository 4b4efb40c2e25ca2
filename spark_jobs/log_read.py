"""How far the coordinators' log is read, and who leads it."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection

from service.domain.owners import Owner
from service.domain.transaction_log import SOURCE
from service.store import read


class LogRead(NamedTuple):
    """By partition: read up to, and led by (broker, epoch), as the store has it."""

    read_to: dict[int, int]
    leaders: dict[int, tuple[int, int]]

    def coordinator(self, owner: Owner | None) -> int:
        """The broker that coordinates the id, if it has led that partition since the id's newest record; else -1."""
        if owner is None:
            return -1
        node, epoch = self.leaders.get(owner.log_partition, (-1, -1))
        return node if epoch == owner.leader_epoch else -1


def log_read(connection: Connection, cluster_id: int) -> LogRead:
    rows = read.partitions(connection, cluster_id, SOURCE)
    return LogRead(
        {row.partition: row.next_offset for row in rows},
        {row.partition: (row.leader, row.leader_epoch) for row in rows},
    )

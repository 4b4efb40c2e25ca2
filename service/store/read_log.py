"""How far the coordinators' log is read, and who leads it."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection

from service.domain.transaction_log.states import UNKNOWN
from service.domain.transaction_log.topic import SOURCE
from service.domain.worlds.order import NOWHERE
from service.domain.worlds.transactions import ANY_EPOCH, Range, Unseen
from service.store.queries import clusters


class LogRead(NamedTuple):
    """By partition: read up to, and led by (broker, epoch), as the store has it. `unseen`: what it may have held of any
    id and did not show. `has_undecodable`: the newest record of some id cannot be decoded."""

    read_to: dict[int, int]
    leaders: dict[int, tuple[int, int]]
    unseen: tuple[Unseen, ...] = ()
    has_undecodable: bool = False


def log_read(connection: Connection, cluster_id: int) -> LogRead:
    rows = clusters.partitions(connection, cluster_id, SOURCE)
    unseen = [Unseen(row.partition, NOWHERE, Range(0, row.witnessed_from), ANY_EPOCH) for row in rows]
    has_undecodable = any(one.state == UNKNOWN for one in clusters.state_counts(connection, cluster_id))
    if has_undecodable:
        # such an id may have any producer id
        unseen += [Unseen(row.partition, NOWHERE, Range(0, row.next_offset + 1), ANY_EPOCH) for row in rows]
    return LogRead(
        {row.partition: row.next_offset for row in rows},
        {row.partition: (row.leader, row.leader_epoch) for row in rows},
        tuple(one for one in unseen if one.decided.hi > one.decided.lo),
        has_undecodable,
    )

"""Reads how far the first read of the coordinators' log has come: before its end nothing is judged."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, select

from service.domain.transaction_log.topic import SOURCE
from service.store.schema import log_partitions

_L = log_partitions.c


class FirstRead(NamedTuple):
    """Offsets of the history that was there at the first start: how many of how many are read; and partitions."""

    position: int
    end: int
    partitions_read: int
    partitions: int

    @property
    def share(self) -> float:
        """0 to 1."""
        return self.position / self.end


def first_read(connection: Connection, cluster_id: int) -> FirstRead | None:
    """None once it is at its end, and where there was no history."""
    rows = connection.execute(
        select(_L.next_offset, _L.counted_from, _L.log_start).where(_L.cluster_id == cluster_id, _L.source == SOURCE)
    ).all()
    if all(row.next_offset >= row.counted_from for row in rows):
        return None
    return FirstRead(
        position=sum(max(min(row.next_offset, row.counted_from) - row.log_start, 0) for row in rows),
        end=sum(max(row.counted_from - row.log_start, 0) for row in rows) or 1,
        partitions_read=sum(row.next_offset >= row.counted_from for row in rows),
        partitions=len(rows),
    )

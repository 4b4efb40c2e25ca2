"""Reads the ledger of a tailed partition: its markers, and its volume by minute."""

from __future__ import annotations

from sqlalchemy import Connection, func, select, tuple_

from service.domain.partitions.ledger import Marker, Volume
from service.domain.source_state import SourceName
from service.store.schema import log_partitions, partition_markers, partition_minutes

_L, _M, _V = log_partitions.c, partition_markers.c, partition_minutes.c


def tailed_as_of_ms(connection: Connection, cluster_id: int, topic: str, partition: int) -> int | None:
    """Returns the time at which the partition's end offset was last requested; None: the partition is not tailed."""
    if "\0" in topic:
        return None  # no topic holds it, and a database may refuse to compare it with one
    asked_at_ms: int | None = connection.scalar(
        select(_L.end_asked_at_ms).where(
            _L.cluster_id == cluster_id, _L.source == SourceName.LEDGER, _L.topic == topic, _L.partition == partition
        )
    )
    return asked_at_ms


def read_markers(
    connection: Connection, cluster_id: int, topic: str, partition: int, before: tuple[int, int] | None, limit: int
) -> tuple[list[Marker], tuple[int, int] | None]:
    """Returns the newest markers before (generation, offset) `before`, and where the next page begins; None: no
    more."""
    place = (_M.generation, _M.offset)
    statement = (
        select(*(_M[name] for name in Marker._fields[:-1]))
        .where(_M.cluster_id == cluster_id, _M.topic == topic, _M.partition == partition)
        .order_by(*(column.desc() for column in place))
        .limit(limit + 1)
    )
    if before is not None:
        statement = statement.where(tuple_(*place) < before)
    rows = [Marker(*row) for row in connection.execute(statement)]
    return rows[:limit], (rows[limit - 1].generation, rows[limit - 1].offset) if len(rows) > limit else None


def read_volume(connection: Connection, cluster_id: int, topic: str, partition: int, from_ms: int) -> list[Volume]:
    """Returns the minutes that begin at `from_ms` or later and have a row, oldest first."""
    rows = connection.execute(
        select(*(_V[name] for name in Volume._fields))
        .where(_V.cluster_id == cluster_id, _V.topic == topic, _V.partition == partition, _V.minute_ms >= from_ms)
        .order_by(_V.minute_ms)
    )
    return [Volume(*row) for row in rows]


def counted_since_ms(connection: Connection, cluster_id: int, topic: str, partition: int) -> int | None:
    """Returns the oldest minute that is kept; None: there is none."""
    oldest: int | None = connection.scalar(
        select(func.min(_V.minute_ms)).where(_V.cluster_id == cluster_id, _V.topic == topic, _V.partition == partition)
    )
    return oldest

"""The progress of reading: one position for each partition of a source's log.

Reading continues from the store's positions, not from those of a Spark checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, and_, delete, select, update

from service.store.clusters import begin_counting
from service.store.lease import Lease, check
from service.store.many_rows import Upsert
from service.store.schema import log_partitions, source_status


class Position(NamedTuple):
    """A row of `log_partitions` without cluster, source and topic: its columns in their order, from `partition` on."""

    partition: int
    topic_id: str
    generation: int
    next_offset: int
    leader: int
    leader_epoch: int
    log_start: int
    counted_from: int
    end_offset: int
    end_asked_at_ms: int
    read_at_ms: int
    records: int
    bytes: int
    transitions_per_s: float
    window_started_ms: int
    window_records: int
    witnessed_from: int
    topic_partitions: int | None


class PartitionStart(NamedTuple):
    """A partition that is about to be read, as the cluster has just described it."""

    partition: int
    topic_id: str
    leader: int
    leader_epoch: int
    log_start: int
    log_end: int


_L = log_partitions
_KEPT = Upsert(log_partitions)
_REPLACED = Upsert(log_partitions, replace=Position._fields[1:])


def start_positions(
    engine: Engine, lease: Lease, source: str, topic: str, starts: Iterable[PartitionStart], now_ms: int
) -> dict[int, Position]:
    """Adds a position at the log's start for each partition that the store does not know yet; returns the positions of
    all partitions.

    Counting begins at the cluster's very first start: records below the log's end at that time set the states of ids,
    and are not counted. If a partition appears later, all its records are counted. So call this function at the first
    start even if the topic does not exist yet; `starts` is empty then. Raises LeaseLost if the lease is no longer held.
    """
    with engine.begin() as connection:
        check(connection, lease)
        is_first = begin_counting(connection, lease.cluster_id, now_ms)
        fresh = [
            Position(
                partition=start.partition,
                topic_id=start.topic_id,
                generation=0,
                next_offset=start.log_start,
                leader=start.leader,
                leader_epoch=start.leader_epoch,
                log_start=start.log_start,
                counted_from=start.log_end if is_first else 0,
                end_offset=start.log_end,
                end_asked_at_ms=now_ms,
                read_at_ms=now_ms,
                records=0,
                bytes=0,
                transitions_per_s=0.0,
                window_started_ms=now_ms,
                window_records=0,
                witnessed_from=start.log_start,
                topic_partitions=None,
            )
            for start in starts
        ]
        _KEPT.write(connection, [(lease.cluster_id, source, topic, *position) for position in fresh])
        return positions(connection, lease.cluster_id, source, topic)


def positions(connection: Connection, cluster_id: int, source: str, topic: str) -> dict[int, Position]:
    """Returns a mapping from partition to its stored position; an empty dict before the first start."""
    columns = [log_partitions.c[name] for name in Position._fields]
    rows = connection.execute(select(*columns).where(_of_log(cluster_id, source, topic)))
    return {row.partition: Position(*row) for row in rows}


def save_positions(connection: Connection, cluster_id: int, source: str, topic: str, moved: Iterable[Position]) -> None:
    """Inserts the positions, or replaces the stored ones."""
    _REPLACED.write(connection, [(cluster_id, source, topic, *position) for position in moved])


def drop_positions(connection: Connection, cluster_id: int, source: str, topic: str, gone: Sequence[Position]) -> None:
    """Deletes the positions of partitions that no longer exist or are no longer read. The source's first remaining
    partition takes over the `records` and `bytes` of the deleted ones, so that the source's sums do not fall. If no
    partition remains, the numbers are lost."""
    if not gone:
        return
    of_log = _of_log(cluster_id, source, topic)
    connection.execute(delete(_L).where(of_log, _L.c.partition.in_(p.partition for p in gone)))
    first = connection.execute(
        select(_L.c.topic, _L.c.partition)
        .where(_L.c.cluster_id == cluster_id, _L.c.source == source)
        .order_by(_L.c.topic, _L.c.partition)
        .limit(1)
    ).one_or_none()
    if first is not None:
        connection.execute(
            update(_L)
            .where(_of_log(cluster_id, source, first.topic), _L.c.partition == first.partition)
            .values(
                records=_L.c.records + sum(p.records for p in gone),
                bytes=_L.c.bytes + sum(p.bytes for p in gone),
            )
        )


def keep_topics(
    engine: Engine, lease: Lease, source: str, keeps: Callable[[str], bool]
) -> dict[str, dict[int, Position]]:
    """Returns the positions of the topics for which `keeps` returns True; deletes the positions of the other topics. If
    no topic is left, deletes the source's status, too. Raises LeaseLost if the lease is no longer held."""
    with engine.begin() as connection:
        check(connection, lease)
        here = _L.c.cluster_id == lease.cluster_id, _L.c.source == source
        topics = connection.scalars(select(_L.c.topic).where(*here).distinct().order_by(_L.c.topic)).all()
        found = {topic: positions(connection, lease.cluster_id, source, topic) for topic in topics}
        for topic in topics:
            if not keeps(topic):
                drop_positions(connection, lease.cluster_id, source, topic, list(found.pop(topic).values()))
        if not found:
            status = source_status.c
            connection.execute(
                delete(source_status).where(status.cluster_id == lease.cluster_id, status.source == source)
            )
        return found


def _of_log(cluster_id: int, source: str, topic: str) -> ColumnElement[bool]:
    return and_(
        log_partitions.c.cluster_id == cluster_id,
        log_partitions.c.source == source,
        log_partitions.c.topic == topic,
    )

"""Reads data partitions, their open entries, the consumer groups on stalled partitions, and the markers and the volume
of tailed partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, case, exists, false, func, select, tuple_

from service.domain.partitions.blocked_groups import AffectedGroup, affected_groups
from service.domain.partitions.facts import FirstBatch, StallClock, TopicPartition
from service.domain.partitions.group_offsets import OFFSETS_TOPIC, GroupOffset, LsoSample
from service.domain.partitions.ledger import Marker, Volume
from service.domain.partitions.open_entries import Entry
from service.domain.partitions.state import PartitionState
from service.domain.reasons.coding import decode, decode_if
from service.domain.reasons.unread import NoPermission
from service.domain.source_state import SourceName
from service.store.many_rows import rows_at
from service.store.schema import (
    data_partitions,
    group_offsets,
    log_partitions,
    open_entries,
    partition_markers,
    partition_minutes,
    partition_watch,
    producer_ids,
    transactional_ids,
)

STALLED_READ: Final = 2_000
ENTRIES_READ: Final = 5_000
GROUPS_READ: Final = 10_000
STALLED_SAMPLES_READ: Final = 5_000

_D, _W, _E, _G = data_partitions.c, partition_watch.c, open_entries.c, group_offsets.c

_FIRST: Final = tuple(c.name for c in data_partitions.c if c.name.startswith("first_"))

_EXISTS = _D.is_gone.is_(False)
_OBSERVED_AT_MS = case(
    (and_(_D.why.is_(None), _EXISTS, _W.observed_at_ms > _D.observed_at_ms), _W.observed_at_ms), else_=_D.observed_at_ms
)

_ENDS = select(_D.topic, _D.partition, *(_D[name] for name in LsoSample._fields)).where(_D.is_gone.is_(False))


class PartitionCounts(NamedTuple):
    """The numbers of watched partitions, of those that answered recently, and of those that are stalled. `not_covered`:
    the number of partitions that exist but are not watched. `observed_at_ms`: the time at which all watched partitions
    were last observed. `answered_at_ms`: the same time or, while no partition answers, the time of the last answer
    (None: there never was one). Before the first observation, both times are None."""

    watched: int
    answering: int
    stalled: int
    not_covered: int
    observed_at_ms: int | None
    answered_at_ms: int | None


_STATE: Final = tuple(field.name for field in fields(PartitionState) if field.name != "first")
_COLUMNS = [_OBSERVED_AT_MS if name == "observed_at_ms" else _D[name] for name in (*_STATE, *_FIRST)]
_JOINED = data_partitions.outerjoin(partition_watch, _W.cluster_id == _D.cluster_id)
_ROWS = select(*_COLUMNS).select_from(_JOINED)
_OF_CLUSTER = _D.cluster_id == bindparam("cluster_id")
_IS_STALLED = and_(_OF_CLUSTER, _D.stalled_since_ms.is_not(None))
_STALLED = _ROWS.where(_IS_STALLED).order_by(_D.stalled_since_ms, _D.topic, _D.partition).limit(bindparam("limit"))
_COUNT_STALLED = select(func.count()).where(_IS_STALLED)
_STALLED_ENDS = _ENDS.where(_IS_STALLED).order_by(_D.stalled_since_ms, _D.topic, _D.partition).limit(bindparam("limit"))
_ENDS_OF_OFFSETS = _ENDS.where(_OF_CLUSTER, _D.topic == OFFSETS_TOPIC)
_GONE = _ROWS.where(_OF_CLUSTER, _D.is_gone.is_(True))
_IS_UNRESPONSIVE = select(exists().where(_OF_CLUSTER, _EXISTS, _D.leader >= 0, _D.why_code != NoPermission.code))
_OBSERVED_AT = select(_W.observed_at_ms).where(_W.cluster_id == bindparam("cluster_id"))
_COUNT_GROUPS = select(func.count()).where(_G.cluster_id == bindparam("cluster_id"))
_ENTRIES = (
    select(*(_E[name] for name in Entry._fields))
    .order_by(_E.topic, _E.partition, _E.start_offset, _E.producer_id)
    .limit(bindparam("limit"))
)
_GROUPS = (
    select(*(_G[name] for name in GroupOffset._fields))
    .where(_G.cluster_id == bindparam("cluster_id"))
    .order_by(_G.group, _G.topic, _G.partition)
    .limit(GROUPS_READ)
)


def observed_at_ms(connection: Connection, cluster_id: int) -> int | None:
    """Returns the time at which all partitions were last observed, even if some did not answer; None: never."""
    return connection.scalar(_OBSERVED_AT, {"cluster_id": cluster_id})


def stall_clocks(connection: Connection, cluster_id: int) -> list[StallClock]:
    """Returns an item for each partition that was stalled at its last answer, with the stall's offset and start."""
    rows = connection.execute(
        select(*(_D[name] for name in StallClock._fields)).where(
            _D.cluster_id == cluster_id, _D.stalled_since_ms.is_not(None)
        )
    )
    return [StallClock(*row) for row in rows]


def stalled(connection: Connection, cluster_id: int, limit: int = STALLED_READ) -> list[PartitionState]:
    """Returns at most `limit` stalled partitions, the longest stalled first; includes partitions that do not answer
    now."""
    return _read(connection, _STALLED, {"cluster_id": cluster_id, "limit": limit})


def count_stalled(connection: Connection, cluster_id: int) -> int:
    """Returns the number of partitions that `stalled` would read without a limit."""
    return connection.scalar(_COUNT_STALLED, {"cluster_id": cluster_id}) or 0


def find(connection: Connection, cluster_id: int, topic: str, partition: int) -> PartitionState | None:
    """Returns the partition; None if it is not known or no longer exists."""
    if "\0" in topic:
        return None  # no topic name contains NUL, and a database may refuse to compare with it
    at = and_(_D.cluster_id == cluster_id, _D.topic == topic, _D.partition == partition, _EXISTS)
    found = _read(connection, _ROWS.where(at))
    return found[0] if found else None


def gone(connection: Connection, cluster_id: int) -> list[PartitionState]:
    """Returns the partitions that no longer exist. The store keeps them for an hour, and longer while they have open
    findings. If the topic is created again, its new partitions replace the old ones with the same numbers at once."""
    return _read(connection, _GONE, {"cluster_id": cluster_id})


def is_some_broker_unresponsive(connection: Connection, cluster_id: int) -> bool:
    """Returns True if some partition's leader does not answer, and the reason is not a missing permission."""
    return connection.scalar(_IS_UNRESPONSIVE, {"cluster_id": cluster_id}) is True


def page(
    connection: Connection,
    cluster_id: int,
    after: TopicPartition | None,
    limit: int,
    *,
    lagging: bool | None = None,
    topic: str | None = None,
    application: str | None = None,
) -> tuple[list[PartitionState], TopicPartition | None]:
    """Returns at most `limit` partitions, by topic and partition, and the place after which the next page begins; None
    after the last page.

    `lagging`: True for only the stalled partitions, False for only the others. `application`: only partitions with an
    open transaction of the application.
    """
    chosen = [_D.cluster_id == cluster_id, _EXISTS]
    if lagging is not None:
        chosen.append(_D.stalled_since_ms.is_not(None) if lagging else _D.stalled_since_ms.is_(None))
    if topic is not None:
        chosen.append(false() if "\0" in topic else _D.topic == topic)
    if application is not None:
        chosen.append(false() if "\0" in application else _has_open_of(application))
    if after is not None:
        chosen.append(tuple_(_D.topic, _D.partition) > after)
    found = _read(connection, _ROWS.where(*chosen).order_by(_D.topic, _D.partition).limit(limit + 1))
    if len(found) <= limit:
        return found, None
    return found[:limit], (found[limit - 1].topic, found[limit - 1].partition)


def _has_open_of(application: str) -> ColumnElement[bool]:
    """Returns the condition that a partition has an open entry whose producer id belongs, or belonged, to a
    transactional.id of the application."""
    p, t = producer_ids.c, transactional_ids.c
    return exists().where(
        _E.cluster_id == _D.cluster_id,
        _E.topic == _D.topic,
        _E.partition == _D.partition,
        p.cluster_id == _E.cluster_id,
        p.producer_id == _E.producer_id,
        t.cluster_id == p.cluster_id,
        t.transactional_id == p.transactional_id,
        t.application == application,
    )


def counts(connection: Connection, cluster_id: int, fresh_since_ms: int) -> PartitionCounts:
    """Returns the numbers of watched, answering, stalled and not watched partitions, with the times of the last
    observation and of the last answer. A partition is answering if it reported its state at `fresh_since_ms` or
    later."""
    answers = and_(_D.why.is_(None), fresh_since_ms <= _OBSERVED_AT_MS)
    watched, answering, stalled, answered_at_ms = connection.execute(
        select(func.count(), _count(answers), _count(_D.stalled_since_ms.is_not(None)), func.max(_D.answered_at_ms))
        .select_from(_JOINED)
        .where(_D.cluster_id == cluster_id, _EXISTS)
    ).one()
    watch = connection.execute(
        select(_W.observed_at_ms, _W.not_covered).where(_W.cluster_id == cluster_id)
    ).one_or_none()
    observed_at_ms, not_covered = (None, 0) if watch is None else watch
    if answering or not watched:
        answered_at_ms = observed_at_ms
    return PartitionCounts(watched, answering, stalled, not_covered, observed_at_ms, answered_at_ms)


def entries(
    connection: Connection, cluster_id: int, places: Sequence[TopicPartition] | None = None, limit: int = ENTRIES_READ
) -> list[Entry]:
    """Returns the first `limit` open entries of these partitions (None: of all), sorted by partition and start
    offset."""
    named = None if places is None else sorted(set(places))
    rows = rows_at(connection, _ENTRIES, open_entries, cluster_id, named, limit=limit)
    return [Entry._make(row) for row in rows][:limit]


def entries_of_producer(connection: Connection, cluster_id: int, producer_id: int, limit: int) -> list[Entry]:
    """Returns the first `limit` open entries of the producer id, sorted by partition and start offset."""
    found = _ENTRIES.where(_E.cluster_id == cluster_id, _E.producer_id == producer_id)
    return [Entry._make(row) for row in connection.execute(found, {"limit": limit})]


def groups(connection: Connection, cluster_id: int) -> list[GroupOffset]:
    """Returns the first GROUPS_READ offsets of groups, sorted by group and partition."""
    rows = connection.execute(_GROUPS, {"cluster_id": cluster_id})
    return [GroupOffset._make(row) for row in rows]


def count_groups(connection: Connection, cluster_id: int) -> int:
    """Returns the number of rows that `groups` would read without a limit."""
    return connection.scalar(_COUNT_GROUPS, {"cluster_id": cluster_id}) or 0


def _read(
    connection: Connection, statement: Select[Any], chosen: Mapping[str, Any] | None = None
) -> list[PartitionState]:
    return [_row(row) for row in connection.execute(statement, chosen)]


def _row(row: Any) -> PartitionState:
    *observed, described, is_whole, lag_bytes, read_why = row[: len(_STATE)]
    first = row[len(_STATE) :]
    read = (bool(described), bool(is_whole), lag_bytes, decode_if(read_why))
    state = PartitionState(*(*observed, *read, None if first[0] is None else FirstBatch(*first)))
    return state if row.why is None else replace(state, why=decode(row.why))


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.count(case((condition, 1)))


def read_affected_groups(connection: Connection, cluster_id: int) -> list[AffectedGroup]:
    """Returns each group that a stalled partition affects, with its GroupRelation, sorted by group, topic and
    partition. Reads only the first GROUPS_READ group offsets."""
    offsets = groups(connection, cluster_id)
    as_of_ms = observed_at_ms(connection, cluster_id)
    if not offsets or as_of_ms is None:
        return []
    places = sorted({(offset.topic, offset.partition) for offset in offsets})
    ends = _by_place(rows_at(connection, _ENDS, data_partitions, cluster_id, places))
    ends |= _of_offsets_topic(connection, cluster_id)
    return affected_groups(offsets, ends, offsets_partitions(ends), as_of_ms)


def stalled_ends(connection: Connection, cluster_id: int, limit: int) -> dict[TopicPartition, LsoSample]:
    """Returns the LSO samples of at most `limit` stalled partitions, the longest stalled first."""
    return _by_place(connection.execute(_STALLED_ENDS, {"cluster_id": cluster_id, "limit": limit}))


def stalled_samples(connection: Connection, cluster_id: int) -> dict[TopicPartition, LsoSample]:
    """Returns the LSO samples of at most STALLED_SAMPLES_READ stalled partitions, the longest stalled first. If any
    partition is stalled, also returns the samples of all partitions of `__consumer_offsets`."""
    found = stalled_ends(connection, cluster_id, STALLED_SAMPLES_READ)
    return found | _of_offsets_topic(connection, cluster_id) if found else {}


def offsets_partitions(ends: Mapping[TopicPartition, LsoSample]) -> int | None:
    """Returns the number of partitions of `__consumer_offsets`; None if this topic is not watched."""
    return max((partition + 1 for topic, partition in ends if topic == OFFSETS_TOPIC), default=None)


def _of_offsets_topic(connection: Connection, cluster_id: int) -> dict[TopicPartition, LsoSample]:
    return _by_place(connection.execute(_ENDS_OF_OFFSETS, {"cluster_id": cluster_id}))


def _by_place(rows: Iterable[Any]) -> dict[TopicPartition, LsoSample]:
    return {(row[0], row[1]): LsoSample(*row[2:]) for row in rows}


_L, _M, _V = log_partitions.c, partition_markers.c, partition_minutes.c


def tailed_as_of_ms(connection: Connection, cluster_id: int, topic: str, partition: int) -> int | None:
    """Returns the time at which the partition's end offset was last requested; None: the partition is not tailed."""
    if "\0" in topic:
        return None  # no topic name contains NUL, and a database may refuse to compare with it
    asked_at_ms: int | None = connection.scalar(
        select(_L.end_asked_at_ms).where(
            _L.cluster_id == cluster_id, _L.source == SourceName.LEDGER, _L.topic == topic, _L.partition == partition
        )
    )
    return asked_at_ms


def read_markers(
    connection: Connection, cluster_id: int, topic: str, partition: int, before: tuple[int, int] | None, limit: int
) -> tuple[list[Marker], tuple[int, int] | None]:
    """Returns at most `limit` markers before the place `before` (generation, offset), the newest first. Also returns
    the `before` of the next page; None after the last page."""
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
    """Returns the start (ms) of the oldest stored minute of the partition; None: no minute is stored."""
    oldest: int | None = connection.scalar(
        select(func.min(_V.minute_ms)).where(_V.cluster_id == cluster_id, _V.topic == topic, _V.partition == partition)
    )
    return oldest

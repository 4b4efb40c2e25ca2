"""Reads the inputs of the judge. Every read follows an index, and ends at a limit or reads only given ids, whatever the
number of ids in the store. Rows beyond the limit are counted, up to MOST_COUNTED."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from sqlalchemy import Connection, Select, bindparam, func, literal, select, text

from service.domain.findings.churn import Uses
from service.domain.findings.conditions import IdState
from service.domain.findings.ids_running_out import HIGH_EPOCH_FROM
from service.domain.findings.log_expanded import NAMED, LeftBehind, LeftBehindIds
from service.domain.findings.unreadable import DataGap, Undecoded
from service.domain.id_behaviour import IN_USE
from service.domain.source_state import SourceName
from service.domain.transaction_log.known_log import LogProgress
from service.domain.transaction_log.states import (
    EXPIRED,
    FIRST_TIME_MS,
    ONGOING,
    OPEN,
    PERSISTED,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TWO_PHASE_TIMEOUT_MS,
    UNKNOWN,
)
from service.store.queries.transactions import participants
from service.store.schema import (
    CAN_EXPIRE,
    clusters,
    data_gaps,
    left_behind_records,
    log_partitions,
    producer_ids,
    rejects,
    transactional_ids,
)

IDS_READ: Final = 500
MOST_COUNTED: Final = 100_000
"""Maximum number of unread rows that are counted: the count takes about 0.2 s, and delays the detection of hanging
transactions."""

GAPS_READ: Final = 200
UNDECODED_READ: Final = 100
WITH_TOPICS: Final = 50
"""A read also reads the partitions of open transactions, but only for this many ids: the first ones that it returns."""

_LEFT_BEHIND: Final = ("transactional_id", "display", "partition", "offset", "timestamp_ms", "state")

T = TypeVar("T")


class LimitedRead(NamedTuple, Generic[T]):
    """The rows read up to a limit, and the number of rows beyond the limit, counted up to MOST_COUNTED."""

    read: list[T]
    unread: int


_T = transactional_ids.c
_ID_STATE = [
    _T["display" if name == "name" else name]
    for name in IdState._fields
    if name not in ("topics", "client_transaction_version")
]
_STATES = select(*_ID_STATE, _T.client_transaction_version)
_L = left_behind_records.c
_NEWEST_WRITES: Final = 500
"""Maximum number of ids in each state that `newest_writes` reads: the most recently updated ones."""
_LOG_PROGRESS = select(*(log_partitions.c[name] for name in LogProgress._fields)).where(
    log_partitions.c.cluster_id == bindparam("cluster_id"), log_partitions.c.source == SourceName.TRANSACTION_LOG
)
_DESCRIPTION = select(clusters.c.description).where(clusters.c.id == bindparam("cluster_id"))


def log_progress(connection: Connection, cluster_id: int) -> list[LogProgress]:
    """Returns the read progress of each partition of the transaction log."""
    return [LogProgress(*row) for row in connection.execute(_LOG_PROGRESS, {"cluster_id": cluster_id})]


def configs(connection: Connection, cluster_id: int) -> Mapping[str, Mapping[str, str]]:
    """Returns the configs as `service.store.clusters.describe` stored them; an empty mapping if none were stored."""
    return dict(_description(connection, cluster_id).get("configs", {}))


def metadata_versions(connection: Connection, cluster_id: int) -> list[int | None]:
    """Returns, for each broker, the highest level of `metadata.version` that it supports; None where the broker did not
    report it."""
    return [one.get("newest_metadata_version") for one in _description(connection, cluster_id).get("brokers", ())]


def transaction_version(connection: Connection, cluster_id: int) -> int | None:
    """Returns the finalized level of `transaction.version`; 0 if it is not finalized, None if the cluster did not
    report its features."""
    features = _description(connection, cluster_id).get("features", {})
    return int(features.get("transaction.version", 0)) if features else None


def _description(connection: Connection, cluster_id: int) -> Mapping[str, Any]:
    return connection.scalar(_DESCRIPTION, {"cluster_id": cluster_id}) or {}


def kafka_id(connection: Connection, cluster_id: int) -> str:
    return str(connection.scalar(select(clusters.c.kafka_cluster_id).where(clusters.c.id == cluster_id)))


def last_uses(connection: Connection, cluster_id: int, ids: Sequence[bytes]) -> Uses:
    """Returns a mapping from id to the time (ms) of its last use, or to IN_USE for an id with an open transaction, and
    for an id whose newest record cannot be decoded. Ids that never had a transaction are absent."""
    found: dict[bytes, int] = {}
    columns = select(_T.transactional_id, _T.state, _T.last_update_ms, _T.last_outcome)
    for begin in range(0, len(ids), IDS_READ):
        some = columns.where(_T.cluster_id == cluster_id, _T.transactional_id.in_(ids[begin : begin + IDS_READ]))
        for one, state, last_update_ms, last_outcome in connection.execute(some):
            if state in OPEN or state == UNKNOWN:
                found[one] = IN_USE
            elif last_outcome is not None:
                found[one] = last_update_ms
    return found


def open_ids(connection: Connection, cluster_id: int, until_ms: int) -> LimitedRead[IdState]:
    """Returns Ongoing transactions that began at `until_ms` or before, the oldest first."""
    return _limited(connection, cluster_id, _ongoing(until_ms))


def timed_out_ids(connection: Connection, cluster_id: int, until_ms: int) -> LimitedRead[IdState]:
    """Returns Ongoing transactions that had reached their timeout by `until_ms`, the oldest first."""
    has_ended = (_T.timeout_ms != TWO_PHASE_TIMEOUT_MS) & (_T.started_at_ms + _T.timeout_ms <= until_ms)
    return _limited(connection, cluster_id, _ongoing(until_ms).where(has_ended))


def _ongoing(until_ms: int) -> Select[Any]:
    """Returns the statement for Ongoing transactions that began at `until_ms` or before. Excludes transactions whose
    start is no valid time, because they would be the oldest forever. The first condition makes the database use the
    partial index."""
    return _STATES.where(
        _T.started_at_ms.is_not(None),
        _T.started_at_ms >= FIRST_TIME_MS,
        _T.started_at_ms <= until_ms,
        _T.state + 0 == ONGOING,
    ).order_by(_T.started_at_ms)


def prepared_ids(connection: Connection, cluster_id: int, until_ms: int) -> LimitedRead[IdState]:
    """Returns ids that have been in PrepareX since `until_ms` or longer, the longest first."""
    statement = _STATES.where(
        _T.state.in_((PREPARE_COMMIT, PREPARE_ABORT)), _T.state_since_ms.between(FIRST_TIME_MS, until_ms)
    )
    return _limited(connection, cluster_id, statement.order_by(_T.state_since_ms))


def expiring_ids(connection: Connection, cluster_id: int, from_ms: int, until_ms: int) -> LimitedRead[IdState]:
    """Returns idle ids that were last updated in [from_ms, until_ms], the longest idle first. Does not read their
    partitions."""
    statement = _STATES.where(text(CAN_EXPIRE), _T.last_update_ms >= from_ms, _T.last_update_ms <= until_ms)
    return _limited(connection, cluster_id, statement.order_by(_T.last_update_ms), with_topics=0)


def high_epoch_ids(connection: Connection, cluster_id: int, log_partitions_: Iterable[int]) -> LimitedRead[IdState]:
    """Of the ids in these log partitions, returns those that use the old protocol and have an epoch of at least
    HIGH_EPOCH_FROM, the highest epoch first."""
    statement = _STATES.where(
        _T.partition.in_(sorted(log_partitions_)),
        _T.client_transaction_version.in_((0, 1)),
        _T.producer_epoch >= HIGH_EPOCH_FROM,
        _T.state + 0 < EXPIRED,
    )
    return _limited(connection, cluster_id, statement.order_by(_T.producer_epoch.desc()), with_topics=0)


def id_states(connection: Connection, cluster_id: int, ids: Sequence[bytes]) -> dict[bytes, IdState]:
    found = _read(connection, cluster_id, _STATES.where(_T.transactional_id.in_(ids)), with_topics=0)
    return {id_state.transactional_id: id_state for id_state in found}


def idle_ids(connection: Connection, cluster_id: int, state: int, after: bytes, limit: int) -> list[IdState]:
    """Returns the next `limit` ids in the state, in the order of ids, after the id `after`."""
    statement = _STATES.where(_T.state == state, _T.transactional_id > after).order_by(_T.transactional_id)
    return _read(connection, cluster_id, statement, with_topics=0, limit=limit)


def _limited(
    connection: Connection, cluster_id: int, statement: Select[Any], with_topics: int = WITH_TOPICS
) -> LimitedRead[IdState]:
    found = _read(connection, cluster_id, statement, with_topics)
    return LimitedRead(found, _behind(connection, statement.where(_T.cluster_id == cluster_id), len(found), IDS_READ))


def _behind(connection: Connection, statement: Select[Any], read: int, limit: int) -> int:
    """Returns the number of rows that the statement selects beyond those that were read, counted up to MOST_COUNTED; 0
    if the limit was not reached."""
    if read < limit:
        return 0
    one_each = statement.with_only_columns(literal(1), maintain_column_froms=True).order_by(None)
    counted = select(func.count()).select_from(one_each.limit(read + MOST_COUNTED).subquery())
    return max((connection.scalar(counted) or 0) - read, 0)


def _read(
    connection: Connection,
    cluster_id: int,
    statement: Select[Any],
    with_topics: int = WITH_TOPICS,
    limit: int = IDS_READ,
) -> list[IdState]:
    rows = connection.execute(statement.where(_T.cluster_id == cluster_id).limit(limit)).all()
    named = [row[0] for row in rows[:with_topics]]
    topics = participants(connection, cluster_id, named) if named else {}
    return [IdState._make((*row[:-1], tuple(topics.get(row[0], ())), row[-1])) for row in rows]


def left_open(connection: Connection, cluster_id: int) -> LimitedRead[IdState]:
    """Returns the Ongoing transactions in left-behind records, the oldest first."""
    columns = (*(_L[column.name] for column in _ID_STATE), _L.participants, _L.client_transaction_version)
    statement = select(*columns).where(
        _L.cluster_id == cluster_id, _L.started_at_ms >= FIRST_TIME_MS, _L.state + 0 == ONGOING
    )
    found = []
    for *newest, places, version in connection.execute(statement.order_by(_L.started_at_ms).limit(IDS_READ)):
        found.append(IdState._make((*newest, tuple(map(tuple, json.loads(places))), version)))
    return LimitedRead(found, _behind(connection, statement, len(found), IDS_READ))


def left_behind_ids(connection: Connection, cluster_id: int) -> LeftBehindIds:
    """Returns the number of left-behind records that have not expired, the number of these that have an open
    transaction, and some of these records. Counts up to MOST_COUNTED."""
    columns = [_L[name] for name in _LEFT_BEHIND]
    live = select(*columns).where(_L.cluster_id == cluster_id, _L.state < EXPIRED)
    ids = connection.scalar(select(func.count()).select_from(live.limit(MOST_COUNTED).subquery())) or 0
    is_open = live.where(_L.started_at_ms.is_not(None), _L.state == ONGOING)
    ongoing = connection.scalar(select(func.count()).select_from(is_open.limit(MOST_COUNTED).subquery())) or 0
    rows = [row for some in (is_open, live) for row in connection.execute(some.limit(NAMED))] if ids else []
    return LeftBehindIds(ids, ongoing, tuple(dict.fromkeys(LeftBehind(*row) for row in rows)))


def some_ids(connection: Connection, cluster_id: int, after: bytes, limit: int) -> list[LeftBehind]:
    """Returns the next `limit` ids after the id `after`, in the order of ids, each with the record that represents the
    id (`service.store.rows.ids`)."""
    columns = [_T[name] for name in _LEFT_BEHIND]
    ahead = select(*columns).where(_T.cluster_id == cluster_id, _T.transactional_id > after)
    rows = connection.execute(ahead.order_by(_T.transactional_id).limit(limit))
    return [LeftBehind(*row) for row in rows]


def newest_writes(connection: Connection, cluster_id: int, since_ms: int) -> dict[int, int]:
    """Returns a mapping from log partition to the newest timestamp of the records of ids that were updated after
    `since_ms`. Reads only the _NEWEST_WRITES most recently updated ids in each state."""
    found: dict[int, int] = {}
    for state in sorted(PERSISTED):
        newest = (
            select(_T.partition, _T.timestamp_ms)
            .where(_T.cluster_id == cluster_id, _T.state == state, _T.last_update_ms > since_ms)
            .order_by(_T.last_update_ms.desc())
            .limit(_NEWEST_WRITES)
        )
        for partition, timestamp_ms in connection.execute(newest):
            found[partition] = max(found.get(partition, -1), timestamp_ms)
    return found


def undecoded(connection: Connection, cluster_id: int, since_ms: int) -> LimitedRead[Undecoded]:
    """Returns the ids in state Unknown and the rejects of each log partition. Of the newest UNDECODED_READ rejects,
    returns those that were seen since `since_ms` or are in the partition of an Unknown id. `unread`: the number of
    unread ids or of unread rejects, whichever is larger. They are not added, because an Unknown id also has a
    reject."""
    names: dict[int, list[str]] = {}
    unknown = select(_T.partition, _T.display).where(_T.cluster_id == cluster_id, _T.state == UNKNOWN)
    ids = connection.execute(unknown.order_by(_T.transactional_id).limit(UNDECODED_READ)).all()
    for partition, name in ids:
        names.setdefault(partition, []).append(name)
    r = rejects.c
    newest = select(r.partition, r.offset, r.seen_at_ms, r.reason).where(
        r.cluster_id == cluster_id, r.source == SourceName.TRANSACTION_LOG
    )
    rows = connection.execute(newest.order_by(r.id.desc()).limit(UNDECODED_READ)).all()
    recent = [row for row in rows if row.seen_at_ms >= since_ms]
    seen: dict[int, list[tuple[int, int, str]]] = {}
    for partition, offset, seen_at_ms, reason in rows:
        if seen_at_ms >= since_ms or partition in names:
            seen.setdefault(partition, []).append((offset, seen_at_ms, reason))
    found = [
        Undecoded(partition, tuple(names.get(partition, ())), tuple(sorted(seen.get(partition, ()))))
        for partition in sorted(names.keys() | seen.keys())
    ]
    unread_rejects = _behind(connection, newest.where(r.seen_at_ms >= since_ms), len(recent), UNDECODED_READ)
    return LimitedRead(found, max(_behind(connection, unknown, len(ids), UNDECODED_READ), unread_rejects))


def gaps(connection: Connection, cluster_id: int, since_ms: int) -> LimitedRead[DataGap]:
    """Returns the newest GAPS_READ gaps seen since `since_ms`."""
    g = data_gaps.c
    columns = (g[name] for name in DataGap._fields[1:])
    statement = select(g.id, *columns).where(g.cluster_id == cluster_id, g.seen_at_ms >= since_ms)
    rows = connection.execute(statement.order_by(g.seen_at_ms.desc()).limit(GAPS_READ))
    found = [DataGap(*row) for row in rows]
    return LimitedRead(found, _behind(connection, statement, len(found), GAPS_READ))


def ended_values(connection: Connection, cluster_id: int, ids: Sequence[bytes]) -> dict[tuple[bytes, int], bytes]:
    """Returns a mapping from (id, producer id) to a record's value, in the bytes that Kafka wrote. The record is the
    PrepareX of the last transaction that the id ended under the producer id."""
    p = producer_ids.c
    rows = connection.execute(
        select(p.transactional_id, p.producer_id, p.ended_value).where(
            p.cluster_id == cluster_id, p.transactional_id.in_(ids), p.ended_value.is_not(None)
        )
    )
    return {(row[0], row[1]): row[2] for row in rows}

"""Deletes rows whose retention time is over, in short transactions of a few thousand rows, found by an index.

The ids, producer ids and audit rows of an open finding are kept until the finding is resolved, even if they are older:
a transaction may hang for months, and operators still need its owner. An open entry on a partition may become a
finding, so its producer id and the ids that had it are kept too. The history of ids is deleted by age alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    Select,
    and_,
    delete,
    exists,
    false,
    or_,
    select,
    text,
    tuple_,
)

from service.domain.retention_policy import DEFAULT, Keep
from service.domain.source_state import SourceName
from service.domain.transaction_log.states import EXPIRED, UNKNOWN
from service.store.audit_events import delete_of_service
from service.store.lease import Lease, check
from service.store.many_rows import Upsert
from service.store.schema import (
    HAS_EXPIRED,
    acknowledgements,
    application_states,
    audit,
    audit_events,
    cluster_minutes,
    coordinator_states,
    data_gaps,
    ended_logs,
    findings,
    id_minutes,
    left_behind_records,
    log_partitions,
    mutes,
    open_entries,
    open_participants,
    partition_markers,
    partition_minutes,
    producer_ids,
    rejects,
    transactional_ids,
    transitions,
    unended_records,
    waiting_decisions,
    waiting_markers,
)

ROWS_AT_ONCE: Final = 4_000
"""Maximum number of rows of each table that one call deletes; the call takes up to half a second in a store of a
million ids."""

MARKERS_FOR_ONE: Final = 5
"""For the tables in _OF_MARKERS, the limit is this many times ROWS_AT_ONCE: thousands of markers may arrive in a
second, and their rows are small."""

IDS_AT_ONCE: Final = 500
"""Maximum number of expired ids that one call deletes: their rows lie in many indexes, far apart."""

AUDIT_KEPT_MS: Final = 400 * 86_400_000
"""Time (ms) for which audit rows are kept: longer than a year, so that a yearly audit finds all rows."""

_STATES = Upsert(coordinator_states, add=("ids",))
_APPLICATION_STATES = Upsert(application_states, add=("ids",))
_NONE: Final = false()
_OF_MARKERS: Final = {partition_markers, unended_records, ended_logs, waiting_decisions, waiting_markers}
_T, _L, _P, _E, _F = transactional_ids.c, log_partitions.c, producer_ids.c, open_entries.c, findings.c
_R, _A, _B = rejects.c, audit.c, left_behind_records.c

_OWNS = and_(
    _T.cluster_id == _P.cluster_id,
    _T.transactional_id == _P.transactional_id,
    _T.producer_id == _P.producer_id,
    _T.state != EXPIRED,
)
_LEFT_BEHIND = and_(_B.cluster_id == _P.cluster_id, _B.producer_id == _P.producer_id, _B.state != EXPIRED)
_HAD = and_(_P.cluster_id == _T.cluster_id, _P.transactional_id == _T.transactional_id)
# the id's newest record cannot be decoded; the reject shows why
_IS_ODD = and_(_T.cluster_id == _R.cluster_id, _T.transactional_id == _R.transactional_id, _T.state == UNKNOWN)
# ids of a log that was replaced by another one (writers.ids.expire_partition_ids) may come again while the new one is
# read
_MAY_COME_AGAIN = and_(
    _T.offset < 0,
    exists().where(
        _L.cluster_id == _T.cluster_id,
        _L.source == SourceName.TRANSACTION_LOG,
        _L.partition == _T.partition,
        _L.next_offset < _L.end_offset,
    ),
)


class Retention:
    """Deletes a cluster's rows that are not needed any more. Use one instance for as long as the lease is held, because
    the instance remembers its position in the table of producer ids."""

    def __init__(
        self,
        engine: Engine,
        lease: Lease,
        *,
        keep: Keep = DEFAULT,
        rows_at_once: int = ROWS_AT_ONCE,
        ids_at_once: int = IDS_AT_ONCE,
    ) -> None:
        self._engine, self._lease, self._keep = engine, lease, keep
        self._rows_at_once, self._ids_at_once = rows_at_once, ids_at_once
        self._cluster_id = lease.cluster_id
        self._producers_after: tuple[bytes, int] | None = None

    def delete_old(self, now_ms: int) -> bool:
        """Deletes old rows, up to a limit for each table, in several short transactions. Returns True if a table other
        than that of producer ids reached its limit: the next call should then come soon. After LeaseLost, stop. After
        StoreUnavailable, try again."""
        keep = self._keep
        kept_ms = {
            transitions.c.at_ms: keep.history,
            id_minutes.c.minute_ms: keep.history,
            partition_minutes.c.minute_ms: keep.history,
            partition_markers.c.at_ms: keep.history,
            unended_records.c.seen_at_ms: keep.history,
            ended_logs.c.seen_at_ms: keep.history,
            waiting_decisions.c.read_at_ms: keep.history,
            waiting_markers.c.read_at_ms: keep.history,
            cluster_minutes.c.minute_ms: keep.minutes,
            data_gaps.c.seen_at_ms: keep.gaps,
            _R.seen_at_ms: keep.rejects,
            _F.resolved_at_ms: keep.findings,
            _A.at_ms: AUDIT_KEPT_MS,
            audit_events.c.at_ms: AUDIT_KEPT_MS,
            mutes.c.until_ms: AUDIT_KEPT_MS,
            acknowledgements.c.at_ms: AUDIT_KEPT_MS,
        }
        needed = {_R.seen_at_ms: exists().where(_IS_ODD), _A.at_ms: _A.finding_id.in_(self._found(_F.id))}
        has_more = False
        for time, age_ms in kept_ms.items():
            with self._transaction() as connection:
                has_more |= self._delete_oldest(connection, time, now_ms - age_ms, needed.get(time, _NONE))
        with self._transaction() as connection:
            of_service = delete_of_service(connection, now_ms - AUDIT_KEPT_MS, self._rows_at_once)
            has_more |= of_service == self._rows_at_once
        with self._transaction() as connection:
            has_more |= self._delete_expired_ids(connection, now_ms - keep.history)
        with self._transaction() as connection:
            self._delete_producer_ids(connection, now_ms - keep.producer_ids)
        return has_more

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._engine.begin() as connection:
            check(connection, self._lease)
            yield connection

    def _found(self, column: Column[Any]) -> Select[Any]:
        """Returns the query for the values of the column in open findings, without null."""
        is_open = (_F.cluster_id == self._cluster_id, _F.resolved_at_ms.is_(None))
        return select(column).where(*is_open, column.is_not(None))

    def _is_needed(self, producer_id: Column[Any]) -> ColumnElement[bool]:
        """Returns the condition that the producer id has an open entry or an open finding."""
        is_open = select(_E.producer_id).where(_E.cluster_id == self._cluster_id)
        return or_(producer_id.in_(is_open), producer_id.in_(self._found(_F.producer_id)))

    def _delete_oldest(
        self, connection: Connection, time: Column[Any], before_ms: int, needed: ColumnElement[bool]
    ) -> bool:
        """Deletes the oldest rows of the table with the column `time`: rows whose `time` is before `before_ms` and that
        are not `needed`. Returns whether the limit was reached."""
        key = list(time.table.primary_key.columns)
        oldest = select(*key).where(time.table.c.cluster_id == self._cluster_id, time < before_ms, ~needed)
        limit = self._rows_at_once * (MARKERS_FOR_ONE if time.table in _OF_MARKERS else 1)
        named = key[0] if len(key) == 1 else tuple_(*key)
        gone = delete(time.table).where(named.in_(oldest.order_by(time).limit(limit)))
        return connection.execute(gone).rowcount == limit

    def _delete_expired_ids(self, connection: Connection, before_ms: int) -> bool:
        """Deletes ids that expired before `before_ms`, and subtracts them from the numbers of expired ids. Returns
        whether the limit was reached.

        Keeps ids of open findings, ids that had a producer id with an open entry or an open finding, and ids of a
        replaced log while the new log is still being read.
        """
        is_kept = (
            _MAY_COME_AGAIN,
            _T.transactional_id.in_(self._found(_F.transactional_id)),
            exists().where(_HAD, self._is_needed(_P.producer_id)),
        )
        rows = connection.execute(
            select(_T.transactional_id, _T.partition, _T.application, _T.framework)
            .where(_T.cluster_id == self._cluster_id, text(HAS_EXPIRED), _T.timestamp_ms < before_ms, ~or_(*is_kept))
            .order_by(_T.timestamp_ms)
            .limit(self._ids_at_once)
        ).all()
        ids = [row.transactional_id for row in rows]
        for table in (open_participants, left_behind_records, transactional_ids):
            connection.execute(
                delete(table).where(table.c.cluster_id == self._cluster_id, table.c.transactional_id.in_(ids))
            )
        gone = Counter(row.partition for row in rows)
        _STATES.write(connection, [(self._cluster_id, p, EXPIRED, -ids) for p, ids in sorted(gone.items())])
        left = Counter((row.application, row.framework) for row in rows if row.application is not None)
        changes = [(self._cluster_id, *of, EXPIRED, -ids) for of, ids in sorted(left.items())]
        _APPLICATION_STATES.write(connection, changes)
        return len(rows) == self._ids_at_once

    def _delete_producer_ids(self, connection: Connection, before_ms: int) -> None:
        """Deletes producer ids that were last seen before `before_ms`. Each call checks the next `rows_at_once` rows of
        the table. The table has no index by time, because every transaction would have to update it, for rows that are
        deleted only after months.

        Keeps a producer id if an unexpired transactional.id has it now, if an unexpired left-behind record has it, or
        if it has an open entry or an open finding.
        """
        place = tuple_(_P.transactional_id, _P.producer_id)
        ahead = [_P.cluster_id == self._cluster_id]
        if self._producers_after is not None:
            ahead.append(place > self._producers_after)
        last = connection.execute(
            select(_P.transactional_id, _P.producer_id)
            .where(*ahead)
            .order_by(_P.transactional_id, _P.producer_id)
            .offset(self._rows_at_once - 1)
            .limit(1)
        ).first()
        if last is not None:
            ahead.append(place <= tuple(last))
        self._producers_after = None if last is None else (last.transactional_id, last.producer_id)
        needed = or_(exists().where(_OWNS), exists().where(_LEFT_BEHIND), self._is_needed(_P.producer_id))
        connection.execute(delete(producer_ids).where(*ahead, _P.last_seen_ms < before_ms, ~needed))

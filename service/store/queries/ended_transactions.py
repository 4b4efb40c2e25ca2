"""Reads the ends of transactions in the order in which they were stored: all aborts, and the commits that were slow or
have a note. Ordinary commits are left out."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from sqlalchemy import Connection, func, or_, select

from service.domain.findings.kinds import Kind
from service.domain.partitions.ledger import Marker
from service.domain.transaction_log.causes import CauseCode
from service.domain.transaction_log.journal import Transition
from service.domain.transaction_log.states import COMPLETE_ABORT, COMPLETE_COMMIT, PREPARED
from service.domain.transaction_log.transitions import REPEATED, SLOW_MARKERS_MS
from service.store.escaped_text import display_id, id_key
from service.store.queries.transactions import full_ids
from service.store.schema import clusters, findings, partition_markers, transitions

MARKERS_READ: Final = 1_000

_FINDINGS_READ: Final = 500

_COUNTING: Final = {
    CauseCode.TIMEOUT: (Kind.TIMED_OUT, Kind.CORRELATED_TIMEOUTS),
    CauseCode.FENCED: (Kind.FENCING_CONFLICT,),
}
"""Maps the cause of an abort to the kinds of findings that count such aborts."""
_WHILE_OPEN: Final = (Kind.OVERDUE, Kind.STUCK_COMPLETION, Kind.LONG_RUNNING)

_T, _C, _M, _F = transitions.c, clusters.c, partition_markers.c, findings.c
_FIELDS: Final = tuple(_T[name] for name in Transition._fields)
_IS_NEW: Final = or_(_T.note.is_(None), _T.note != REPEATED)
_IS_NOTABLE: Final = or_(
    _T.to_state == COMPLETE_ABORT,
    # with the full history of an id, ordinary commits have rows, too
    (_T.to_state == COMPLETE_COMMIT) & (_T.note.is_not(None) | (_T.marker_ms >= SLOW_MARKERS_MS)),
)


class EndedTransaction(NamedTuple):
    """A complete transaction. `number`: the number of the history row `completed`; a newer row has a higher number.
    `prepared`, `prepared_number`: the history row of its PrepareX, and the row's number; both None if the PrepareX has
    no row."""

    number: int
    cluster_id: int
    cluster: str
    kafka_cluster_id: str
    transactional_id: bytes
    log_partition: int
    generation: int
    prepared_number: int | None
    prepared: Transition | None
    completed: Transition

    @property
    def cause(self) -> CauseCode:
        if self.prepared is not None and self.prepared.cause is not None:
            return self.prepared.cause
        return CauseCode.COMMIT if self.completed.to_state == COMPLETE_COMMIT else CauseCode.UNATTRIBUTED


class AboutEnd(NamedTuple):
    """A finding about the end of a transaction."""

    id: str
    kind: Kind


class EndedPage(NamedTuple):
    """A page of ends, sorted by their numbers. `up_to`: later pages contain only ends with higher numbers. `is_all`:
    True if no further page follows."""

    ends: tuple[EndedTransaction, ...]
    up_to: int
    is_all: bool


def numbers_known(connection: Connection) -> tuple[int, int]:
    """Returns the lowest and the highest number of a stored history row; (1, 0) if there is none."""
    # as queries of their own, because a database may read all rows for both together
    ends = select(func.min(_T.id)).scalar_subquery(), select(func.max(_T.id)).scalar_subquery()
    oldest, newest = connection.execute(select(*ends)).one()
    return (1, 0) if oldest is None else (oldest, newest)


def read_ends(connection: Connection, after: int, up_to: int, limit: int) -> EndedPage:
    """Returns at most `limit` ends with numbers in (after, up_to]. Leaves out ordinary commits, ends from before the
    start of counting, and repeated records of the same end."""
    rows = connection.execute(
        select(_T.id, _C.id, _C.name, _C.kafka_cluster_id, _T.transactional_id, _T.partition, _T.generation, *_FIELDS)
        .join(clusters, _C.id == _T.cluster_id)
        .where(_T.id > after, _T.id <= up_to, _T.counted.is_(True), _IS_NEW, _IS_NOTABLE)
        .order_by(_T.id)
        .limit(limit)
    ).all()
    ends = []
    for number, cluster_id, name, kafka_id, key, partition, generation, *fields in rows:
        completed = Transition(*fields)
        whole_id = full_ids(connection, cluster_id, [key])[key]
        prepared_number, prepared = _prepared(connection, cluster_id, key, generation, completed)
        of_id = whole_id, partition, generation
        ends.append(EndedTransaction(number, cluster_id, name, kafka_id, *of_id, prepared_number, prepared, completed))
    is_all = len(rows) < limit
    return EndedPage(tuple(ends), up_to if is_all else ends[-1].number, is_all)


def read_markers(connection: Connection, end: EndedTransaction) -> list[Marker]:
    """Returns at most MARKERS_READ markers of the transaction on tailed partitions: markers with its producer id, epoch
    and outcome, written between its PrepareX and its CompleteX. Leaves out a partition with several such markers,
    because it is not known which of them is the transaction's. Returns an empty list if the PrepareX has no row."""
    if end.prepared is None:
        return []
    rows = connection.execute(
        select(*(_M[name] for name in Marker._fields if name != "ends_from"))
        .where(
            _M.cluster_id == end.cluster_id,
            _M.at_ms >= end.prepared.at_ms,
            _M.at_ms <= end.completed.at_ms,
            _M.producer_id == end.prepared.producer_id,
            _M.producer_epoch == end.prepared.producer_epoch,
            _M.is_commit.is_(end.completed.to_state == COMPLETE_COMMIT),
        )
        .order_by(_M.at_ms, _M.topic, _M.partition)
        .limit(MARKERS_READ)
    )
    markers = [Marker(*row) for row in rows]
    times = Counter((marker.topic, marker.partition) for marker in markers)
    return [marker for marker in markers if times[marker.topic, marker.partition] == 1]


def finding_about(connection: Connection, end: EndedTransaction) -> AboutEnd | None:
    """Returns the finding that counts this end: a finding about the transaction's id, else about a prefix of this id,
    else about many ids. If no finding counts this end, returns a finding about the id: the last that opened while the
    transaction was open, as far as its times are known. Returns None if there is none."""
    key, name = id_key(end.transactional_id), display_id(end.transactional_id)
    kinds = _COUNTING.get(end.cause, ())
    if end.prepared_number is not None and kinds:
        rows = connection.execute(
            select(_F.id, _F.kind, _F.transactional_id, _F.prefix, _F.passed_over)
            .where(
                _F.cluster_id == end.cluster_id,
                _F.kind.in_(kinds),
                _F.confirmed_at_ms.is_not(None),
                _F.counted_to >= end.prepared_number,
                or_(_F.transactional_id == key, _F.transactional_id.is_(None)),
            )
            .order_by(_F.opened_at_ms)
            .limit(_FINDINGS_READ)
        )
        fitting = [
            (0 if row.transactional_id else 1 if row.prefix else 2, AboutEnd(row.id, Kind(row.kind)))
            for row in rows
            if end.prepared_number not in row.passed_over and (row.prefix is None or name.startswith(row.prefix))
        ]
        if fitting:
            return min(fitting, key=lambda one: one[0])[1]
    row = connection.execute(
        select(_F.id, _F.kind)
        .where(
            _F.cluster_id == end.cluster_id,
            _F.kind.in_(_WHILE_OPEN),
            _F.transactional_id == key,
            _F.confirmed_at_ms.is_not(None),
            _F.opened_at_ms >= _began_ms(end),
            _F.opened_at_ms <= end.completed.at_ms,
        )
        .order_by(_F.opened_at_ms.desc())
        .limit(1)
    ).one_or_none()
    return None if row is None else AboutEnd(row.id, Kind(row.kind))


def _began_ms(end: EndedTransaction) -> int:
    """Returns the earliest known time (ms) of the transaction."""
    if end.prepared is None:
        return end.completed.at_ms - (end.completed.marker_ms or 0)
    return end.prepared.at_ms - (end.prepared.duration_ms or 0)


def _prepared(
    connection: Connection, cluster_id: int, key: bytes, generation: int, completed: Transition
) -> tuple[int, Transition] | tuple[None, None]:
    """Returns the number and the row of the PrepareX that `completed` completes. Returns (None, None) if the id's
    previous row is not this PrepareX."""
    if completed.from_state not in PREPARED:
        return None, None
    row = connection.execute(
        select(_T.id, *_FIELDS)
        .where(
            _T.cluster_id == cluster_id,
            _T.transactional_id == key,
            _T.generation == generation,
            _T.offset < completed.offset,
            _IS_NEW,
        )
        .order_by(_T.offset.desc())
        .limit(1)
    ).one_or_none()
    if row is None or row.to_state != completed.from_state:
        return None, None
    number, *fields = row
    return number, Transition(*fields)

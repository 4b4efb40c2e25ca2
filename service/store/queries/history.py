"""Reads history: the timeline of an id, its minutes and its producer ids, and the owners of a producer id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, exists, false, func, literal, select, tuple_

from service.domain.transaction_log import timeline
from service.domain.transaction_log.id_delta import IdMinute
from service.domain.transaction_log.journal import Transition
from service.domain.transaction_log.states import EXPIRED
from service.domain.transaction_log.timeline import Commits, Folded, Row, TimelineCursor
from service.store.escaped_text import full_id, id_key
from service.store.queries.clusters import EndedCounts
from service.store.rows.ids import minute_of_row
from service.store.schema import id_minutes, producer_ids, transactional_ids, transitions
from service.store.schema.history import ABORTED, MINUTE_COLUMNS

ROWS_AT_ONCE: Final = 250  # a page, and some rows to see what follows
_MINUTES_AT_ONCE: Final = 2_000

_T, _M, _P = transitions.c, id_minutes.c, producer_ids.c
_BEFORE = transitions.alias("before").c
_PLACE = (_T.generation, _T.offset, _T.id)

# when a log is read again, the next generation has rows for the same records; the first rows are shown, because they
# were judged with more context
_IS_REPEATED = exists().where(
    _BEFORE.cluster_id == _T.cluster_id,
    _BEFORE.partition == _T.partition,
    _BEFORE.generation == _T.generation - 1,
    _BEFORE.offset == _T.offset,
    _BEFORE.transactional_id == _T.transactional_id,
    _BEFORE.at_ms == _T.at_ms,
)


class TimelinePage(NamedTuple):
    """A page of a timeline; `after`: the place where the next page begins; None if this was the last page."""

    items: tuple[Row | Folded, ...]
    after: TimelineCursor | None


class Owner(NamedTuple):
    """An id that wrote under a producer id. `current`: True if the id still has the producer id."""

    transactional_id: bytes
    first_seen_ms: int
    last_seen_ms: int
    first_epoch: int
    last_epoch: int
    current: bool


def read_timeline(
    connection: Connection, cluster_id: int, transactional_id: bytes, begin: TimelineCursor, limit: int
) -> TimelinePage:
    """Returns at most `limit` items of the id's timeline that follow `begin`, newest first."""
    key = id_key(transactional_id)
    rows = _rows(connection, cluster_id, key, begin)
    minutes = _commits(connection, cluster_id, key, begin)
    found = list(islice(timeline.timeline_items(rows, minutes, begin), limit + 1))
    after = found[limit - 1][1] if len(found) > limit else None
    return TimelinePage(tuple(item for item, _ in found[:limit]), after)


def read_minutes(connection: Connection, cluster_id: int, transactional_id: bytes, from_ms: int) -> list[IdMinute]:
    """Returns the minutes of the id that begin at `from_ms` or later and have a row, oldest first."""
    rows = connection.execute(
        select(*(_M[name] for name in MINUTE_COLUMNS))
        .where(_M.cluster_id == cluster_id, _M.transactional_id == id_key(transactional_id), _M.minute_ms >= from_ms)
        .order_by(_M.minute_ms)
    )
    return [minute_of_row(row) for row in rows]


def read_owners(connection: Connection, cluster_id: int, producer_id: int) -> list[Owner]:
    """Returns the owners of the producer id, the newest first. There can be several owners only after the transaction
    log was replaced, because Kafka gives a producer id to one transactional.id for good."""
    ids = transactional_ids.c
    is_current = func.coalesce(and_(ids.producer_id == _P.producer_id, ids.state != EXPIRED), false())
    rows = connection.execute(
        select(*(_P[name] for name in Owner._fields[:-1]), is_current, func.coalesce(ids.display, ""))
        .outerjoin_from(
            producer_ids,
            transactional_ids,
            and_(ids.cluster_id == _P.cluster_id, ids.transactional_id == _P.transactional_id),
        )
        .where(_P.cluster_id == cluster_id, _P.producer_id == producer_id)
        .order_by(_P.last_seen_ms.desc(), _P.transactional_id)
    )
    return [Owner._make((full_id(key, display), *seen, bool(current))) for key, *seen, current, display in rows]


def owner_at(owners: Sequence[Owner], at_ms: int | None) -> Owner | None:
    """Returns the owner of the producer id at `at_ms`; if there was no owner then, the owner that used the producer id
    closest to that time. If `at_ms` is None, returns the newest owner. Returns None if `owners` is empty.

    `owners`: newest first, as `read_owners` returns them.
    """

    def apart_ms(owner: Owner) -> int:
        return 0 if at_ms is None else max(owner.first_seen_ms - at_ms, at_ms - owner.last_seen_ms, 0)

    return min(owners, key=apart_ms, default=None)


def newest_rows(
    connection: Connection, cluster_id: int, transactional_id: bytes, after: tuple[int, int, int] | None = None
) -> list[Row]:
    """Returns at most ROWS_AT_ONCE history rows of the id that follow `after`, newest first. Leaves out rows that
    repeat those of the previous generation. `transactional_id`: the id's key."""
    statement = (
        select(_T.generation, _T.id, _T.counted, *(_T[name] for name in Transition._fields))
        .where(_T.cluster_id == cluster_id, _T.transactional_id == transactional_id, ~_IS_REPEATED)
        .order_by(*(column.desc() for column in _PLACE))
        .limit(ROWS_AT_ONCE)
    )
    rows = connection.execute(statement if after is None else statement.where(tuple_(*_PLACE) < after))
    return [Row(generation, number, counted, Transition(*row)) for generation, number, counted, *row in rows]


def _rows(connection: Connection, cluster_id: int, transactional_id: bytes, begin: TimelineCursor) -> Iterator[Row]:
    after = begin.row
    while True:
        found = newest_rows(connection, cluster_id, transactional_id, after)
        yield from found
        if len(found) < ROWS_AT_ONCE:
            return
        after = found[-1].place


def _commits(
    connection: Connection, cluster_id: int, transactional_id: bytes, begin: TimelineCursor
) -> Iterator[Commits]:
    statement = (
        select(_M.minute_ms, _M.commits, _M.first_ms, _M.last_ms)
        .where(_M.cluster_id == cluster_id, _M.transactional_id == transactional_id, _M.commits > 0)
        .order_by(_M.minute_ms.desc())
        .limit(_MINUTES_AT_ONCE)
    )
    before_ms = begin.minute_ms
    while True:
        ahead = statement if before_ms is None else statement.where(_M.minute_ms < before_ms)
        found = [Commits(*row) for row in connection.execute(ahead)]
        yield from found
        if len(found) < _MINUTES_AT_ONCE:
            return
        before_ms = found[-1].minute_ms


_PRODUCERS_READ: Final = 50


_ABORTS: ColumnElement[int] = sum((_M[name] for name in ABORTED.values()), start=literal(0))


class ProducerRow(NamedTuple):
    """The times and epochs at which an id wrote under a producer id."""

    producer_id: int
    first_seen_ms: int
    last_seen_ms: int
    first_epoch: int
    last_epoch: int


def ended_since(
    connection: Connection, cluster_id: int, transactional_ids: Sequence[bytes], from_ms: int
) -> dict[bytes, EndedCounts]:
    """Returns a mapping from id to the numbers of its transactions that ended in minutes that begin at `from_ms` or
    later. An id without such minutes is absent. `transactional_ids`: at most one page of ids."""
    asked = {id_key(transactional_id): transactional_id for transactional_id in transactional_ids}
    rows = connection.execute(
        select(_M.transactional_id, func.sum(_M.commits), func.sum(_ABORTS))
        .where(_M.cluster_id == cluster_id, _M.transactional_id.in_(asked), _M.minute_ms >= from_ms)
        .group_by(_M.transactional_id)
    )
    return {asked[key]: EndedCounts(int(commits), int(aborts)) for key, commits, aborts in rows}


def producers_of(connection: Connection, cluster_id: int, transactional_id: bytes) -> list[ProducerRow]:
    """Returns the newest _PRODUCERS_READ stored producer ids of the id, the newest first."""
    rows = connection.execute(
        select(*(_P[name] for name in ProducerRow._fields))
        .where(_P.cluster_id == cluster_id, _P.transactional_id == id_key(transactional_id))
        .order_by(_P.last_seen_ms.desc(), _P.first_seen_ms.desc(), _P.producer_id.desc())
        .limit(_PRODUCERS_READ)
    )
    return [ProducerRow(*row) for row in rows]

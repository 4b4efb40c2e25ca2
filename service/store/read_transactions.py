"""Reads the rows of ids: one of them, or a page of many. Pages follow the indexes and never count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import merge
from itertools import islice
from typing import Any, Final, NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, Row, Select, func, or_, select

from service.domain.limits import LAST_TIME_MS
from service.domain.states import OPEN
from service.store.display import display_id
from service.store.id_key import KEPT, id_key, prefix_end, whole_id
from service.store.schema import open_participants, transactional_ids
from service.store.writer_rows import IdRow

_T = transactional_ids.c
_WIDE: Final = 20_000
"""Of so many ids the rows are not looked up and sorted: that takes longer than walking past fifty others for each."""

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class Selection(NamedTuple):
    """Which ids a page is about. `states`: numbers of `service.domain.states`, at least one.

    `started_until_ms` leaves only transactions that are open and began then or before; `topic` those that are open and
    have a partition of it; `text` is looked for in what people see of the id, upper and lower case alike.
    """

    states: frozenset[int]
    prefix: bytes = b""
    started_until_ms: int | None = None
    producer_id: int | None = None
    topic: str | None = None
    text: str | None = None


class Place(NamedTuple):
    """Where a page ended: the last row's segment of the sort, its time there (None: by id alone) and its id."""

    segment: int
    ms: int | None
    transactional_id: bytes


class Page(NamedTuple):
    """`after` is where the next page begins; None: this was the last."""

    rows: tuple[IdRow, ...]
    after: Place | None


class _ByTime(NamedTuple):
    """Rows whose `column` lies in [lowest, highest], in its order, equal ones by id."""

    column: Column[Any]
    lowest: int
    highest: int
    newest_first: bool = False


class _ById(NamedTuple):
    """Rows in one of `states`, in the order of their ids' bytes."""

    states: frozenset[int] | None


_Segment = _ByTime | _ById

# a number that is no time has no age, and null ages come last
SORTS: Final[dict[str, tuple[_Segment, ...]]] = {
    "age": (
        _ByTime(_T.started_at_ms, 0, LAST_TIME_MS),
        _ByTime(_T.started_at_ms, _INT64_MIN, -1),
        _ByTime(_T.started_at_ms, LAST_TIME_MS + 1, _INT64_MAX),
        _ById(frozenset(range(256)) - OPEN),
    ),
    "transactional_id": (_ById(None),),
    "last_updated": (
        _ByTime(_T.last_update_ms, 0, LAST_TIME_MS, newest_first=True),
        _ByTime(_T.last_update_ms, LAST_TIME_MS + 1, _INT64_MAX),
        _ByTime(_T.last_update_ms, _INT64_MIN, -1),
    ),
}


def find(connection: Connection, cluster_id: int, transactional_id: bytes) -> IdRow | None:
    key = id_key(transactional_id)
    row = connection.execute(
        select(transactional_ids).where(_T.cluster_id == cluster_id, _T.transactional_id == key)
    ).one_or_none()
    return None if row is None else _row(row)


def read_page(
    connection: Connection, cluster_id: int, selection: Selection, sort: str, after: Place | None, limit: int
) -> Page:
    """At most `limit` rows in the order of `sort` (a key of SORTS), from behind `after`."""
    selection = _narrowed(selection)
    found: list[tuple[int, IdRow]] = []
    segments = SORTS[sort]
    for number in range(0 if after is None else after.segment, len(segments)):
        begin = after if after is not None and after.segment == number else None
        wanted = limit + 1 - len(found)
        found += [(number, row) for row in _read(connection, cluster_id, selection, segments[number], begin, wanted)]
        if len(found) > limit:
            number, last = found[limit - 1]
            return Page(tuple(row for _, row in found[:limit]), _place(number, segments[number], last))
    return Page(tuple(row for _, row in found), None)


def participants(
    connection: Connection, cluster_id: int, transactional_ids_: Sequence[bytes]
) -> dict[bytes, list[tuple[str, int]]]:
    """(topic, partition) of the open transactions among the ids (a page of them at most), in that order."""
    p = open_participants.c
    found: dict[bytes, list[tuple[str, int]]] = {}
    asked = {id_key(transactional_id): transactional_id for transactional_id in transactional_ids_}
    rows = connection.execute(
        select(p.transactional_id, p.topic, p.partition)
        .where(p.cluster_id == cluster_id, p.transactional_id.in_(asked))
        .order_by(p.transactional_id, p.topic, p.partition)
    )
    for key, topic, partition in rows:
        found.setdefault(asked[key], []).append((topic, partition))
    return found


def is_place(sort: str, place: Place) -> bool:
    """Whether a page of `sort` can have ended there."""
    segments = SORTS[sort]
    if not 0 <= place.segment < len(segments):
        return False
    segment = segments[place.segment]
    if isinstance(segment, _ById):
        return place.ms is None
    return place.ms is not None and segment.lowest <= place.ms <= segment.highest


def _narrowed(selection: Selection) -> Selection:
    """Only open transactions have an age or partitions."""
    if selection.started_until_ms is None and selection.topic is None:
        return selection
    return selection._replace(states=selection.states & OPEN)


def _place(number: int, segment: _Segment, row: IdRow) -> Place:
    ms = getattr(row, segment.column.name) if isinstance(segment, _ByTime) else None
    return Place(number, ms, id_key(row.transactional_id))


def _row(row: Row[*tuple[Any, ...]]) -> IdRow:
    """A row of `transactional_ids`, under the whole id instead of its key."""
    found = IdRow(*row)
    whole = whole_id(found.transactional_id, found.display)
    return found if whole == found.transactional_id else found._replace(transactional_id=whole)


def _read(
    connection: Connection, cluster_id: int, selection: Selection, segment: _Segment, after: Place | None, limit: int
) -> list[IdRow]:
    if isinstance(segment, _ByTime) and segment.column is _T.started_at_ms and not selection.states & OPEN:
        return []
    if isinstance(segment, _ByTime) and (
        segment.column is _T.started_at_ms
        or (_names_ids(selection) and not _is_wide(connection, cluster_id, selection))
    ):
        statement = by_time(cluster_id, selection, segment, after, limit)
        return [_row(row) for row in connection.execute(statement)]
    # one short walk for each state: the indexes that begin with it give the order, whatever the mixture
    if isinstance(segment, _ByTime):
        walks = [
            [
                (-ms if segment.newest_first else ms, key)
                for ms, key in connection.execute(by_update(cluster_id, selection, segment, state, after, limit))
            ]
            for state in sorted(selection.states)
        ]
        return _rows(connection, cluster_id, [key for _, key in islice(merge(*walks), limit)])
    states = selection.states if segment.states is None else selection.states & segment.states
    after_id = None if after is None else after.transactional_id
    ids = [connection.scalars(by_id(cluster_id, selection, state, after_id, limit)).all() for state in sorted(states)]
    return _rows(connection, cluster_id, list(islice(merge(*ids), limit)))


def _rows(connection: Connection, cluster_id: int, keys: Sequence[bytes]) -> list[IdRow]:
    """In the order of the keys."""
    if not keys:
        return []
    rows = connection.execute(
        select(transactional_ids).where(_T.cluster_id == cluster_id, _T.transactional_id.in_(keys))
    )
    found = {row.transactional_id: row for row in rows}
    return [_row(found[key]) for key in keys]


def by_id(cluster_id: int, selection: Selection, state: int, after: bytes | None, limit: int) -> Select[bytes]:
    """The ids of one state in their order, from behind `after`."""
    statement = (
        select(_T.transactional_id)
        .where(_T.cluster_id == cluster_id, _T.state == state, *_filters(cluster_id, selection))
        .order_by(_T.transactional_id)
        .limit(limit)
    )
    return statement if after is None else statement.where(_T.transactional_id > after)


def by_update(
    cluster_id: int, selection: Selection, segment: _ByTime, state: int, after: Place | None, limit: int
) -> Select[int, bytes]:
    """(time, id) of one state in the order of the segment, from behind `after`."""
    time = segment.column
    return (
        select(time, _T.transactional_id)
        .where(
            _T.state == state,
            *_within(cluster_id, segment, time, after),
            *_filters(cluster_id, selection, seeks=False),
        )
        .order_by(time.desc() if segment.newest_first else time, _T.transactional_id)
        .limit(limit)
    )


def by_time(
    cluster_id: int, selection: Selection, segment: _ByTime, after: Place | None, limit: int
) -> Select[tuple[Any, ...]]:
    """The rows of one segment, from behind `after`.

    The open ones are few: walked through in the order of their time. Otherwise what the selection names is looked up
    and sorted. A sum is no indexed column: it leaves one choice.
    """
    walks = selection.producer_id is None and segment.column is _T.started_at_ms
    time: ColumnElement[Any] = segment.column if walks else segment.column + 0
    state: ColumnElement[Any] = _T.state + 0
    return (
        select(transactional_ids)
        .where(
            *_within(cluster_id, segment, time, after),
            state.in_(sorted(selection.states)),
            *_filters(cluster_id, selection, seeks=not walks),
        )
        .order_by(time.desc() if segment.newest_first else time, _T.transactional_id)
        .limit(limit)
    )


def _within(
    cluster_id: int, segment: _ByTime, time: ColumnElement[Any], after: Place | None
) -> Iterable[ColumnElement[bool]]:
    """In the segment, from behind `after`."""
    lowest, highest = segment.lowest, segment.highest
    if after is not None and after.ms is not None:
        lowest, highest = (lowest, after.ms) if segment.newest_first else (after.ms, highest)
    yield from (_T.cluster_id == cluster_id, time >= lowest, time <= highest)
    if after is not None:
        yield or_(time != after.ms, _T.transactional_id > after.transactional_id)


def _is_wide(connection: Connection, cluster_id: int, selection: Selection) -> bool:
    """Whether a prefix is all that names ids, and of so many that some are soon met in the order of time."""
    if selection.producer_id is not None or selection.topic is not None:
        return False
    only_prefix = Selection(selection.states, selection.prefix[:KEPT])
    fits = select(_T.transactional_id).where(_T.cluster_id == cluster_id, *_filters(cluster_id, only_prefix))
    return connection.execute(fits.offset(_WIDE - 1).limit(1)).first() is not None


def _names_ids(selection: Selection) -> bool:
    return bool(selection.prefix) or selection.producer_id is not None or selection.topic is not None


def _filters(cluster_id: int, selection: Selection, *, seeks: bool = True) -> Iterable[ColumnElement[bool]]:
    """`seeks`: an index may find the prefix. Its ids may be half of all, which PostgreSQL cannot tell beforehand."""
    if selection.prefix:
        kept, text = selection.prefix[:KEPT], display_id(selection.prefix)
        if not seeks:
            yield func.substr(_T.transactional_id, 1, len(kept)) == kept
        else:
            yield _T.transactional_id >= kept
            if (end := prefix_end(kept)) is not None:
                yield _T.transactional_id < end
        if len(selection.prefix) > KEPT:  # longer than any key: what people see of the id has to go on
            yield func.substr(_T.display, 1, len(text)) == text
    if selection.started_until_ms is not None:
        yield _T.started_at_ms >= 0
        yield _T.started_at_ms <= selection.started_until_ms
    if selection.producer_id is not None:
        same = transactional_ids.alias("same_producer").c
        yield _T.transactional_id.in_(
            select(same.transactional_id).where(
                same.cluster_id == cluster_id, same.producer_id == selection.producer_id
            )
        )
    if selection.topic is not None:
        p = open_participants.c
        yield _T.transactional_id.in_(
            select(p.transactional_id).where(p.cluster_id == cluster_id, p.topic == selection.topic)
        )
    if selection.text is not None:
        yield _T.display.icontains(selection.text, autoescape=True)

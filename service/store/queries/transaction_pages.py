"""The filters and the order of a page of ids, and the statements that read the page by an index."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from sqlalchemy import Column, ColumnElement, Select, false, func, or_, select

from service.domain.transaction_log.states import FIRST_TIME_MS, LAST_TIME_MS, OPEN
from service.store.escaped_text import KEY_ID_BYTES, part_displays, possible_ids_of, prefix_end
from service.store.schema import open_participants, transactional_ids

_T = transactional_ids.c
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class Selection(NamedTuple):
    """Filters of a page of ids; a filter that is None or empty selects all. `states`: numbers of
    `service.domain.transaction_log.states`, at least one.

    `started_until_ms` selects only open transactions that began at that time or before, `topic` only open ones with a
    partition of the topic, and `application` only the application's ids. `text` selects ids whose display text contains
    `text`, ignoring case. `text` may be written in any notation of `possible_ids`.
    """

    states: frozenset[int]
    prefix: bytes = b""
    started_until_ms: int | None = None
    producer_id: int | None = None
    topic: str | None = None
    text: bytes = b""
    application: str | None = None


class PageCursor(NamedTuple):
    """The place where a page ended: the number of the segment in the sort, and the time and id of the last row. `ms` is
    None in a segment that is sorted by id alone."""

    segment: int
    ms: int | None
    transactional_id: bytes


class ByTime(NamedTuple):
    """The rows whose `column` is in [lowest, highest], sorted by this column, then by id."""

    column: Column[Any]
    lowest: int
    highest: int
    newest_first: bool = False


class ById(NamedTuple):
    """The rows in one of `states` (None: in any state), in the order of their ids' bytes."""

    states: frozenset[int] | None


Segment = ByTime | ById

# a number that is no time has no age, and null ages come last
SORTS: Final[dict[str, tuple[Segment, ...]]] = {
    "age": (
        ByTime(_T.started_at_ms, FIRST_TIME_MS, LAST_TIME_MS),
        ByTime(_T.started_at_ms, _INT64_MIN, FIRST_TIME_MS - 1),
        ByTime(_T.started_at_ms, LAST_TIME_MS + 1, _INT64_MAX),
        ById(frozenset(range(256)) - OPEN),
    ),
    "transactional_id": (ById(None),),
    "last_updated": (
        ByTime(_T.last_update_ms, FIRST_TIME_MS, LAST_TIME_MS, newest_first=True),
        ByTime(_T.last_update_ms, LAST_TIME_MS + 1, _INT64_MAX),
        ByTime(_T.last_update_ms, _INT64_MIN, FIRST_TIME_MS - 1),
    ),
}


def is_cursor(sort: str, place: PageCursor) -> bool:
    """Returns whether `place` is a possible end of a page sorted by `sort`."""
    segments = SORTS[sort]
    if not 0 <= place.segment < len(segments):
        return False
    segment = segments[place.segment]
    if isinstance(segment, ById):
        return place.ms is None
    return place.ms is not None and segment.lowest <= place.ms <= segment.highest


def by_id(cluster_id: int, selection: Selection, state: int, after: bytes | None, limit: int) -> Select[bytes]:
    """Returns the statement for the ids in one state, sorted by id, following `after`. If the selection has an
    application, the statement uses the index of applications, except for an open state: open ids are always few, so the
    statement then uses the index of states."""
    seeks_state = selection.application is None or state in OPEN
    is_in_state = _T.state == state if seeks_state else _T.state + 0 == state
    statement = (
        select(_T.transactional_id)
        .where(_T.cluster_id == cluster_id, is_in_state, *filters(cluster_id, selection))
        .order_by(_T.transactional_id)
        .limit(limit)
    )
    return statement if after is None else statement.where(_T.transactional_id > after)


def by_update(
    cluster_id: int, selection: Selection, segment: ByTime, state: int, after: PageCursor | None, limit: int
) -> Select[int, bytes]:
    """Returns the statement that selects the ids in one state, each with its time (the segment's column). The rows have
    the order of the segment, and begin behind `after`."""
    time = segment.column
    return (
        select(time, _T.transactional_id)
        .where(
            _T.cluster_id == cluster_id,
            _T.state == state,
            *_within(segment, time, after),
            *filters(cluster_id, selection, seeks=False),
        )
        .order_by(time.desc() if segment.newest_first else time, _T.transactional_id)
        .limit(limit)
    )


def by_time(
    cluster_id: int, selection: Selection, segment: ByTime, after: PageCursor | None, limit: int
) -> Select[tuple[Any, ...]]:
    """Returns the statement for the rows of one segment, following `after`.

    Open transactions are few, so a segment by the start of open transactions is read along its index, unless the
    selection has a producer id. In any other case, the statement first looks up the ids that the selection names, and
    then sorts them. For this, the statement uses the segment's column only in a sum (`column + 0`), so that the
    database cannot use the column's index.
    """
    walks = selection.producer_id is None and segment.column is _T.started_at_ms
    time: ColumnElement[Any] = segment.column if walks else segment.column + 0
    return (
        select(transactional_ids)
        .where(
            _T.cluster_id == cluster_id,
            *_within(segment, time, after),
            (_T.state + 0).in_(sorted(selection.states)),
            *filters(cluster_id, selection, seeks=not walks),
        )
        .order_by(time.desc() if segment.newest_first else time, _T.transactional_id)
        .limit(limit)
    )


def among(
    may_contain: ColumnElement[bool],
    cluster_id: int,
    selection: Selection,
    segment: Segment,
    after: PageCursor | None,
    limit: int,
) -> Select[bytes]:
    """Returns the statement for the ids in the segment that follow `after`, in the segment's order. `may_contain`: a
    condition that has an index and that few rows fulfil. Sums (`column + 0`) keep the database from using another
    index."""
    states = selection.states
    order: list[ColumnElement[Any]] = [_T.transactional_id]
    place: list[ColumnElement[bool]] = []
    if isinstance(segment, ByTime):
        time: ColumnElement[Any] = segment.column + 0
        order.insert(0, time.desc() if segment.newest_first else time)
        place += _within(segment, time, after)
    else:
        states = states if segment.states is None else states & segment.states
        place += [] if after is None else [_T.transactional_id > after.transactional_id]
    return (
        select(_T.transactional_id)
        .where(
            may_contain,
            _T.cluster_id + 0 == cluster_id,
            (_T.state + 0).in_(sorted(states)),
            *place,
            *filters(cluster_id, selection, seeks=False),
        )
        .order_by(*order)
        .limit(limit)
    )


def _within(segment: ByTime, time: ColumnElement[Any], after: PageCursor | None) -> Iterable[ColumnElement[bool]]:
    lowest, highest = segment.lowest, segment.highest
    if after is not None and after.ms is not None:
        lowest, highest = (lowest, after.ms) if segment.newest_first else (after.ms, highest)
    yield from (time >= lowest, time <= highest)
    if after is not None:
        yield or_(time != after.ms, _T.transactional_id > after.transactional_id)


def filters(cluster_id: int, selection: Selection, *, seeks: bool = True) -> Iterable[ColumnElement[bool]]:
    """Yields the conditions of the selection. `seeks`: True if the database may search an index for the prefix. Such a
    search takes long if half of all ids begin with the prefix."""
    if selection.prefix:
        kept = selection.prefix[:KEY_ID_BYTES]
        if not seeks:
            yield func.substr(_T.transactional_id, 1, len(kept)) == kept
        else:
            yield _T.transactional_id >= kept
            if (end := prefix_end(kept)) is not None:
                yield _T.transactional_id < end
        if len(selection.prefix) > KEY_ID_BYTES:  # longer than any key: the display text has to match
            starts = [
                part_display for part_display in part_displays(selection.prefix) if not part_display.startswith(" ")
            ]
            yield or_(*(func.substr(_T.display, 1, len(start)) == start for start in starts))
    if selection.started_until_ms is not None:
        yield _T.started_at_ms >= FIRST_TIME_MS
        yield _T.started_at_ms <= selection.started_until_ms
    if selection.producer_id is not None:
        same = transactional_ids.alias("same_producer").c
        yield _T.transactional_id.in_(
            select(same.transactional_id).where(
                same.cluster_id == cluster_id, same.producer_id == selection.producer_id
            )
        )
    if selection.application is not None:
        yield of_application(selection.application)
    if selection.topic is not None:
        p = open_participants.c
        yield _T.transactional_id.in_(
            select(p.transactional_id).where(p.cluster_id == cluster_id, p.topic == selection.topic)
        )
    if selection.text:
        yield or_(*(_T.display.icontains(part, autoescape=True) for part in wanted_parts(selection.text)))


def of_application(name: str) -> ColumnElement[bool]:
    """Returns the condition for the ids of an application."""
    # no name contains NUL, and a database may refuse to compare with it
    return false() if "\0" in name else _T.application == name


def wanted_parts(text: bytes) -> list[str]:
    """Returns the texts to search for: if an id contains `text`, its display text contains at least one of these
    texts."""
    return list(dict.fromkeys(part for possible_id in possible_ids_of(text) for part in part_displays(possible_id)))

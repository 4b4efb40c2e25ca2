"""Reads the rows of ids, single ones or pages. Pages follow the indexes and count no rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import merge
from itertools import islice
from typing import Any, Final, Generic, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, bindparam, select

from service.domain.transaction_log.states import OPEN
from service.store.backends import backend_of
from service.store.escaped_text import KEY_ID_BYTES, full_id, id_key, is_cut, kept_part, label_text, possible_ids_of
from service.store.queries.transaction_pages import (
    SORTS,
    ByTime,
    PageCursor,
    Segment,
    Selection,
    among,
    by_id,
    by_time,
    by_update,
    filters,
    wanted_parts,
)
from service.store.rows.ids import IdRow
from service.store.schema import open_participants, transactional_ids

_T, _O = transactional_ids.c, open_participants.c
_PARTICIPANTS = (
    select(_O.transactional_id, _O.topic, _O.partition)
    .where(_O.cluster_id == bindparam("cluster_id"), _O.transactional_id.in_(bindparam("ids", expanding=True)))
    .order_by(_O.transactional_id, _O.topic, _O.partition)
)
_WIDE: Final = 20_000
"""If at least this many ids match the selected prefix or application, a page is read by the index of times. Looking up
and sorting so many ids would take longer than skipping fifty other ids for each id of the page."""
_FEW: Final = 2_000
"""If at most this many ids contain the text of a selection, these ids are looked up and sorted. If more ids contain the
text, the page is read along an index."""
_SAME_START: Final = 200
"""The text of a long id is cut in labels of metrics. At most this many ids that begin like a cut label are searched for
its id."""


Place = TypeVar("Place")


class Page(NamedTuple, Generic[Place]):
    """A page of rows; `after`: the place where the next page begins; None if this was the last page."""

    rows: tuple[IdRow, ...]
    after: Place | None


def find_named(connection: Connection, cluster_id: int, name: bytes) -> IdRow | None:
    """Returns the row of the id that a text names: the first of `possible_ids_of` with a row, else the id that has this
    text as its label in metrics. Returns None if there is no such id."""
    rows = (find(connection, cluster_id, possible_id) for possible_id in possible_ids_of(name))
    found = next((row for row in rows if row is not None), None)
    return found or _find_labelled(connection, cluster_id, name.decode(errors="replace"))


def _find_labelled(connection: Connection, cluster_id: int, label: str) -> IdRow | None:
    """Returns the row of the long id whose label in metrics was cut to this text. Searches at most _SAME_START ids that
    begin like the label; returns None if none of them has this label."""
    start = kept_part(label)
    if start is None:
        return None
    begins = filters(cluster_id, Selection(frozenset(), named_prefix(connection, cluster_id, start.encode())))
    rows = connection.execute(
        select(_T.transactional_id, _T.display).where(_T.cluster_id == cluster_id, *begins).limit(_SAME_START)
    )
    keys = [key for key, display in rows if label_text(display) == label]
    return find(connection, cluster_id, keys[0]) if keys else None


def find(connection: Connection, cluster_id: int, transactional_id: bytes) -> IdRow | None:
    key = id_key(transactional_id)
    row = connection.execute(
        select(transactional_ids).where(_T.cluster_id == cluster_id, _T.transactional_id == key)
    ).one_or_none()
    return None if row is None else id_row(row)


def full_ids(connection: Connection, cluster_id: int, keys: Iterable[bytes]) -> dict[bytes, bytes]:
    """Returns a mapping from key to the whole id; a key without a row maps to itself."""
    found = {key: key for key in keys}
    if cut := [key for key in found if is_cut(key)]:
        rows = connection.execute(
            select(_T.transactional_id, _T.display).where(_T.cluster_id == cluster_id, _T.transactional_id.in_(cut))
        )
        found |= {key: full_id(key, display) for key, display in rows}
    return found


def named_prefix(connection: Connection, cluster_id: int, prefix: bytes) -> bytes:
    """Returns the prefix of ids that a text names: the first of `possible_ids_of` with which some id begins, else the
    text itself."""
    readings = possible_ids_of(prefix)
    if len(readings) > 1:
        for reading in readings:
            begins = filters(cluster_id, Selection(frozenset(), reading))
            if connection.execute(select(_T.state).where(_T.cluster_id == cluster_id, *begins).limit(1)).first():
                return reading
    return prefix


def read_page(
    connection: Connection, cluster_id: int, selection: Selection, sort: str, after: PageCursor | None, limit: int
) -> Page[PageCursor]:
    """Returns at most `limit` rows in the order of `sort` (a key of SORTS), following `after`."""
    if selection.started_until_ms is not None or selection.topic is not None:
        selection = selection._replace(states=selection.states & OPEN)  # only these have an age or partitions
    may_contain = _containing(connection, selection)
    found: list[tuple[int, IdRow]] = []
    segments = SORTS[sort]
    for number in range(0 if after is None else after.segment, len(segments)):
        begin = after if after is not None and after.segment == number else None
        wanted = limit + 1 - len(found)
        if may_contain is None:
            rows = _read(connection, cluster_id, selection, segments[number], begin, wanted)
        else:
            statement = among(may_contain, cluster_id, selection, segments[number], begin, wanted)
            rows = _rows(connection, cluster_id, connection.scalars(statement).all())
        found += [(number, row) for row in rows]
        if len(found) > limit:
            number, last = found[limit - 1]
            return Page(tuple(row for _, row in found[:limit]), _place(number, segments[number], last))
    return Page(tuple(row for _, row in found), None)


def participants(
    connection: Connection, cluster_id: int, transactional_ids_: Sequence[bytes]
) -> dict[bytes, list[tuple[str, int]]]:
    """Returns a mapping from id to the sorted (topic, partition) pairs of its open transaction. Ids without an open
    transaction are absent. `transactional_ids_`: at most one page of ids."""
    found: dict[bytes, list[tuple[str, int]]] = {}
    asked = {id_key(transactional_id): transactional_id for transactional_id in transactional_ids_}
    rows = connection.execute(_PARTICIPANTS, {"cluster_id": cluster_id, "ids": list(asked)})
    for key, topic, partition in rows:
        found.setdefault(asked[key], []).append((topic, partition))
    return found


def _containing(connection: Connection, selection: Selection) -> ColumnElement[bool] | None:
    """Returns the condition for ids that may contain the wanted text. Returns None if no text is wanted, if the
    database has no index of texts that helps, or if an index by producer id or topic helps more."""
    if not selection.text or selection.producer_id is not None or selection.topic is not None:
        return None
    return backend_of(connection).find_texts(connection, wanted_parts(selection.text), _FEW)


def _place(number: int, segment: Segment, row: IdRow) -> PageCursor:
    ms = None
    if isinstance(segment, ByTime):
        ms = row.started_at_ms if segment.column is _T.started_at_ms else row.record.last_update_ms
    return PageCursor(number, ms, id_key(row.transactional_id))


def id_row(columns: Row[*tuple[Any, ...]]) -> IdRow:
    """Returns the row with the whole id in place of its key."""
    row = IdRow.of(columns)
    whole = full_id(row.transactional_id, row.display)
    return row if whole == row.transactional_id else row._replace(transactional_id=whole)


def _read(
    connection: Connection,
    cluster_id: int,
    selection: Selection,
    segment: Segment,
    after: PageCursor | None,
    limit: int,
) -> list[IdRow]:
    if isinstance(segment, ByTime) and segment.column is _T.started_at_ms and not selection.states & OPEN:
        return []
    names_ids = (
        bool(selection.prefix or selection.application)
        or selection.producer_id is not None
        or selection.topic is not None
    )
    if isinstance(segment, ByTime) and (
        segment.column is _T.started_at_ms or (names_ids and not _is_wide(connection, cluster_id, selection))
    ):
        statement = by_time(cluster_id, selection, segment, after, limit)
        return [id_row(row) for row in connection.execute(statement)]
    # one short walk for each state: the indexes that begin with the state give the order, for any mixture of states
    if isinstance(segment, ByTime):
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
    """Returns the rows in the order of the keys."""
    if not keys:
        return []
    rows = connection.execute(
        select(transactional_ids).where(_T.cluster_id == cluster_id, _T.transactional_id.in_(keys))
    )
    found = {row.transactional_id: row for row in rows}
    return [id_row(found[key]) for key in keys]


def _is_wide(connection: Connection, cluster_id: int, selection: Selection) -> bool:
    """Returns whether the selection names ids only by a prefix or an application, and at least _WIDE ids match."""
    if selection.producer_id is not None or selection.topic is not None:
        return False
    named = Selection(selection.states, selection.prefix[:KEY_ID_BYTES], application=selection.application)
    fits = select(_T.transactional_id).where(_T.cluster_id == cluster_id, *filters(cluster_id, named))
    return connection.execute(fits.offset(_WIDE - 1).limit(1)).first() is not None

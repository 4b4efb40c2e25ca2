"""The history of one id on its page: the rows and minutes of a window, read once, and the drawings made from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection

from service.api.schemas.transactions import waiting_abort_ms
from service.domain.transaction_log import states
from service.domain.transaction_log.minutes import minute_of
from service.domain.transaction_log.timeline import Commits, Row
from service.domain.transaction_log.transitions import REPEATED
from service.store.id_key import id_key
from service.store.queries.history import MinuteRow, ProducerRow, commits_of, read_minutes, rows_of
from service.store.rows.ids import IdRow
from service.web.charts.rates import Bars, bars_of, totals_of
from service.web.charts.swimlane import MOST_DRAWN, Axis, Lanes, Window, axis_of, lanes_of
from service.web.transactions.spans import lives

_ROWS_READ: Final = 250  # as many as `rows_of` asks for


class History(NamedTuple):
    """The history of an id in a window. `rows`: the newest rows, newest first; `within`: those in the window;
    `has_more`: the window has older ones. `totals`: transactions that ended in the window, by the word under which they
    count. `bars`: None unless there are too many for the lanes, which then show none of them."""

    axis: Axis
    rows: Sequence[Row]
    within: Sequence[Row]
    has_more: bool
    totals: dict[str, int]
    inits: int
    lanes: Lanes
    bars: Bars | None


def read_history(
    connection: Connection, newest: IdRow, producers: Sequence[ProducerRow], window: Window, now_ms: int
) -> History:
    key = id_key(newest.transactional_id)
    axis = axis_of(window, now_ms)
    rows = [Row(*row) for row in connection.execute(rows_of(newest.cluster_id, key, None))]
    within = [row for row in rows if axis.has(row.at_ms)]
    read = read_minutes(connection, newest.cluster_id, key, minute_of(axis.from_ms))
    minutes = _with_waiting([one for one in read if one.minute_ms < axis.to_ms], newest, axis)
    totals = totals_of(minutes)
    inits = [row.at_ms for row in within if row.to_state == states.EMPTY and row.note != REPEATED]
    many = sum(totals.values()) > MOST_DRAWN
    told = []
    if not many:
        commits = [Commits(*row) for row in connection.execute(commits_of(newest.cluster_id, key, None))]
        told = lives(newest, reversed(within), minutes, {one.minute_ms: one for one in commits})
    return History(
        axis=axis,
        rows=rows,
        within=within,
        has_more=len(rows) == _ROWS_READ == len(within),
        totals=totals,
        inits=len(inits),
        lanes=lanes_of(axis, window, now_ms, told, inits, producers, newest.timeout_ms),
        bars=bars_of(axis._replace(from_ms=minute_of(axis.from_ms)), window, minutes) if many else None,
    )


def _with_waiting(minutes: list[MinuteRow], newest: IdRow, axis: Axis) -> list[MinuteRow]:
    """Returns the minutes with the abort that has no cause yet, if there is one, counted as unattributed. The cause
    depends on the id's next record; REST counts such an abort in the same way."""
    waiting_ms = waiting_abort_ms(newest)
    if waiting_ms is None or not axis.has(waiting_ms):
        return minutes
    minute_ms = minute_of(waiting_ms)
    nothing = MinuteRow(minute_ms, *[0] * (len(MinuteRow._fields) - 1))
    one = next((minute for minute in minutes if minute.minute_ms == minute_ms), nothing)
    others = [minute for minute in minutes if minute.minute_ms != minute_ms]
    counted = one._replace(aborts_unattributed=one.aborts_unattributed + 1)
    return sorted([*others, counted], key=lambda minute: minute.minute_ms)

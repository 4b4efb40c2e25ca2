"""Reads the history of one id for its page, and builds its transactions as they are drawn: from the rows of its
history, the minutes of its commits, and its newest record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection

from service.api.schemas.transactions import waiting_abort_ms
from service.domain.transaction_log import states
from service.domain.transaction_log.causes import CauseCode
from service.domain.transaction_log.facts import NO_ID
from service.domain.transaction_log.id_delta import minute_of
from service.domain.transaction_log.states import NAMES, is_time
from service.domain.transaction_log.timeline import Commits, Row
from service.domain.transaction_log.transitions import REPEATED
from service.store.escaped_text import id_key
from service.store.queries.history import MinuteRow, ProducerRow, commits_of, read_minutes, rows_of
from service.store.rows.ids import IdRow
from service.views import words
from service.web.charts.minutes import CauseBars, bars_of, totals_of
from service.web.charts.swimlane import MOST_DRAWN, Axis, Lanes, Life, Window, axis_of, lanes_of

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
    bars: CauseBars | None


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


def lives(
    newest: IdRow, rows: Iterable[Row], minutes: Iterable[MinuteRow], commits: Mapping[int, Commits]
) -> list[Life]:
    """Returns the transactions, oldest first. `rows`: of the time that is drawn, oldest first; `commits`: by minute."""
    rows = [row for row in rows if is_time(row.at_ms) and row.note != REPEATED]
    told = [*of_rows(rows), *_of_minutes(rows, minutes, commits), *_of_newest(newest)]
    return sorted(told, key=lambda life: life.first_ms)


def of_rows(rows: Sequence[Row]) -> list[Life]:
    """Returns the complete transactions that left rows of their own, oldest first, like the rows."""
    found: list[Life] = []
    prepared: Row | None = None
    for row in rows:
        if row.to_state in states.PREPARED:
            prepared = row
        elif row.to_state in states.COMPLETE:
            own = prepared if prepared is not None and row.from_state == prepared.to_state else None
            prepared = None
            if own is None or own.cause != CauseCode.EMPTY_ABORT:
                found.append(_complete(own, row))
        else:
            prepared = None
    return found


def _complete(prepared: Row | None, row: Row) -> Life:
    """Returns the complete transaction. `prepared`: None if its PrepareX left no row, as for a commit."""
    is_commit = row.to_state == states.COMPLETE_COMMIT
    if prepared is None:
        prepared_ms = row.at_ms - (row.marker_ms or 0)
        cause = CauseCode.COMMIT if is_commit else CauseCode.UNATTRIBUTED
        return Life(cause, None, max(prepared_ms, 0), row.at_ms, row.producer_epoch)
    cause = prepared.cause or (CauseCode.COMMIT if is_commit else CauseCode.UNATTRIBUTED)
    began_ms = None if prepared.duration_ms is None else max(prepared.at_ms - prepared.duration_ms, 0)
    return Life(
        cause,
        began_ms,
        prepared.at_ms,
        max(row.at_ms, prepared.at_ms),
        prepared.producer_epoch,
        prepared.duration_ms,
        prepared.duration_ms,
        offset=prepared.offset,
    )


def _of_minutes(rows: Sequence[Row], minutes: Iterable[MinuteRow], commits: Mapping[int, Commits]) -> Iterable[Life]:
    """Yields the ordinary commits. A commit that is alone in its minute is known in full; several in one minute are
    drawn as one."""
    own: dict[int, list[Row]] = {}
    for row in rows:
        if row.counted:
            own.setdefault(minute_of(row.at_ms), []).append(row)
    for minute in minutes:
        known = commits.get(minute.minute_ms)
        rest = _without(minute, own.get(minute.minute_ms, ()))
        if rest.commits <= 0 or known is None or not (is_time(known.first_ms) and is_time(known.last_ms)):
            continue
        open_ms = round(rest.open_sum_ms / rest.opened) if rest.opened > 0 else None
        longest_ms = rest.open_max_ms if rest.opened > 0 else None
        if rest.commits == rest.opened == rest.marked == 1 and open_ms is not None:
            prepared_ms = max(known.last_ms - rest.marker_sum_ms, 0)
            began_ms = max(prepared_ms - open_ms, 0)
            yield Life(CauseCode.COMMIT, began_ms, prepared_ms, known.last_ms, open_ms=open_ms, longest_ms=open_ms)
        else:
            began_ms = max(known.first_ms - (open_ms or 0), 0)
            yield Life(
                CauseCode.COMMIT,
                began_ms,
                known.first_ms,
                known.last_ms,
                None,
                open_ms,
                longest_ms,
                number=rest.commits,
            )


def _without(minute: MinuteRow, own: Iterable[Row]) -> MinuteRow:
    """Returns the minute without the commits that have rows of their own. If the longest open time may be that of such
    a commit, `open_max_ms` becomes 0: the longest of the others may have been shorter."""
    own = list(own)
    ended = sum(row.to_state == states.COMPLETE_COMMIT for row in own)
    opened = [row.duration_ms for row in own if row.duration_ms is not None and row.to_state in states.PREPARED]
    marked = [row.marker_ms for row in own if row.marker_ms is not None and row.to_state in states.COMPLETE]
    return minute._replace(
        commits=minute.commits - ended,
        opened=minute.opened - len(opened),
        open_sum_ms=max(minute.open_sum_ms - sum(opened), 0),
        open_max_ms=minute.open_max_ms if minute.open_max_ms > max(opened, default=-1) else 0,
        marked=minute.marked - len(marked),
        marker_sum_ms=max(minute.marker_sum_ms - sum(marked), 0),
    )


def _of_newest(newest: IdRow) -> Iterable[Life]:
    """Yields the transaction that is open now, if there is one."""
    if newest.state not in states.OPEN:
        return
    began_ms = newest.started_at_ms if is_time(newest.started_at_ms) else None
    if newest.state == states.ONGOING:
        if began_ms is not None:
            yield Life(None, began_ms, None, None, newest.producer_epoch)
    elif is_time(newest.state_since_ms):
        cause = CauseCode.COMMIT
        if newest.state == states.PREPARE_ABORT:
            cause = CauseCode(newest.abort_cause or CauseCode.CLIENT_ABORT)
        open_ms = None if began_ms is None else max(newest.state_since_ms - began_ms, 0)
        yield Life(cause, began_ms, newest.state_since_ms, None, newest.producer_epoch, open_ms, open_ms)


class Phase(NamedTuple):
    """A phase of a transaction. `took`: its duration or its result, in words."""

    state: str
    at_ms: int
    text: str
    took: str


def phases_of(rows: Sequence[Row], offset: int | None) -> list[Phase]:
    """Returns the phases of the transaction with its PrepareX or CompleteX at `offset`; if `offset` is None, of the one
    that left rows last. Empty if there is no such transaction. `rows`: newest first."""
    ordered = [row for row in reversed(rows) if is_time(row.at_ms) and row.note != REPEATED]
    ends = [number for number, row in enumerate(ordered) if row.to_state in states.PREPARED | states.COMPLETE]
    if offset is not None:
        ends = [number for number in ends if ordered[number].offset == offset]
    if not ends:
        return []
    place = ends[-1]
    if (
        ordered[place].to_state in states.COMPLETE
        and place
        and ordered[place - 1].to_state == ordered[place].from_state
    ):
        place -= 1
    return _phases(ordered[place:])


def _phases(rows: Sequence[Row]) -> list[Phase]:
    """Returns the phases of the transaction at the beginning of `rows`: its own rows and those after them, oldest
    first."""
    first, rest = rows[0], list(rows[1:])
    told: list[Phase] = []
    if first.to_state in states.PREPARED:
        told += _prepared(first)
        complete = rest.pop(0) if rest and rest[0].from_state == first.to_state else None
        if complete is None or complete.to_state not in states.COMPLETE:
            return told
        told[-1] = told[-1]._replace(took=_markers(complete))
    else:
        complete = first
        if first.marker_ms is not None:
            prepared = NAMES.get(first.from_state, "Prepare")
            told.append(Phase(prepared, max(first.at_ms - first.marker_ms, 0), "", _markers(first)))
    told.append(Phase(NAMES[complete.to_state], complete.at_ms, _producer(complete), complete.note or "ended"))
    if rest and rest[0].to_state == states.EMPTY and rest[0].from_state == complete.to_state:
        after = words.fine(max(rest[0].at_ms - complete.at_ms, 0))
        told.append(Phase("Empty", rest[0].at_ms, f"{_producer(rest[0])}, InitProducerId", f"{after} after its end"))
    return told


def _prepared(row: Row) -> list[Phase]:
    outcome = "commit" if row.to_state == states.PREPARE_COMMIT else "abort"
    told = []
    if row.duration_ms is not None:
        took = f"open for {words.fine(row.duration_ms)}"
        told.append(Phase("Ongoing", max(row.at_ms - row.duration_ms, 0), "its first partition was added", took))
    waiting = "its markers are not all written"
    return [*told, Phase(NAMES[row.to_state], row.at_ms, f"{_producer(row)}, decided: {outcome}", waiting)]


def _markers(complete: Row) -> str:
    return "no partition was in it" if complete.marker_ms is None else f"markers took {words.fine(complete.marker_ms)}"


def _producer(row: Row) -> str:
    return "" if row.producer_id == NO_ID else f"{row.producer_id} / {row.producer_epoch:,}"

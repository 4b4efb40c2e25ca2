"""The past of one id in a window of time: its newest transitions, its transactions, and the minutes in which its
transactions ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from service.domain.transaction_log import states
from service.domain.transaction_log.causes import CauseCode
from service.domain.transaction_log.facts import NO_ID, MinuteSums
from service.domain.transaction_log.id_delta import IdMinute, minute_of
from service.domain.transaction_log.journal import Transition
from service.domain.transaction_log.states import NAMES, is_time
from service.domain.transaction_log.timeline import Row
from service.domain.transaction_log.transitions import REPEATED
from service.store.escaped_text import id_key
from service.store.queries.history import ROWS_AT_ONCE, newest_rows, read_minutes
from service.store.rows.ids import IdRow
from service.views import words
from service.views.transactions.next_step import open_since_ms


class Life(NamedTuple):
    """A transaction, or several commits that ended in one minute (`number`: how many).

    For one transaction: `cause` is None if the outcome is not decided yet. `began_ms` is None if the start is not
    known. `prepared_ms` is None if the transaction is not decided yet. `ended_ms` is None if the transaction has not
    ended yet. `offset` is the offset of the PrepareX, if the PrepareX has a row.

    For several commits: `prepared_ms` and `ended_ms` are the times at which the first and the last of them ended.
    `open_ms` and `longest_ms` are their average and their longest open time. `longest_ms` is 0 if the longest open time
    may be that of another commit, which ended in the same minute and is drawn by itself.
    """

    cause: CauseCode | None
    began_ms: int | None
    prepared_ms: int | None
    ended_ms: int | None
    epoch: int | None = None
    open_ms: int | None = None
    longest_ms: int | None = None
    number: int = 1
    offset: int | None = None

    @property
    def first_ms(self) -> int:
        return next(ms for ms in (self.began_ms, self.prepared_ms, self.ended_ms) if ms is not None)


class Past(NamedTuple):
    """The history of an id in a window. `rows`: the newest rows of the id, newest first; `within`: the rows in the
    window. `minutes`: the minutes of the window, oldest first."""

    rows: Sequence[Row]
    within: Sequence[Row]
    minutes: Sequence[IdMinute]

    @property
    def has_more(self) -> bool:
        """Returns True if the window may contain older rows that were not read."""
        return len(self.rows) == ROWS_AT_ONCE == len(self.within)

    @property
    def totals(self) -> dict[str, int]:
        """Returns the numbers of transactions that ended in the window, as `ends_of` does. Zeros are left out."""
        ends = [ends_of(minute) for minute in self.minutes]
        totals = {word: sum(end[word] for end in ends) for word in (ends[0] if ends else ())}
        return {word: count for word, count in totals.items() if count}

    @property
    def inits_ms(self) -> list[int]:
        """Returns the times at which the id was initialised."""
        transitions = [row.transition for row in self.within]
        return [
            transition.at_ms
            for transition in transitions
            if transition.to_state == states.EMPTY and transition.note != REPEATED
        ]


def read_past(connection: Connection, newest: IdRow, from_ms: int, to_ms: int) -> Past:
    """Reads the past of an id. `from_ms`, `to_ms`: the first and the last moment of the window."""
    rows = newest_rows(connection, newest.cluster_id, id_key(newest.transactional_id))
    within = [row for row in rows if from_ms <= row.at_ms <= to_ms]
    minutes = read_all_minutes(connection, newest, minute_of(from_ms))
    return Past(rows, within, [minute for minute in minutes if minute.minute_ms < to_ms])


def read_all_minutes(connection: Connection, newest: IdRow, from_ms: int) -> list[IdMinute]:
    """Returns the minutes of the id that begin at `from_ms` or later, oldest first. An abort whose cause depends on the
    id's next record counts as unattributed."""
    minutes = read_minutes(connection, newest.cluster_id, newest.transactional_id, from_ms)
    waiting_ms = waiting_abort_ms(newest)
    if waiting_ms is None or minute_of(waiting_ms) < from_ms:
        return minutes
    found = {minute.minute_ms: minute for minute in minutes}
    minute_ms = minute_of(waiting_ms)
    found[minute_ms] = found.get(minute_ms, IdMinute(minute_ms)).with_abort("unattributed")
    return [found[ms] for ms in sorted(found)]


def waiting_abort_ms(row: IdRow) -> int | None:
    """Returns the time (ms) at which the last abort completed, if this abort counts but its cause is not settled yet;
    else None."""
    last = row.last_abort
    return last.completed_at_ms if last is not None and last.counts and last.is_waiting else None


def ends_of(minute: IdMinute) -> dict[str, int]:
    """Returns the numbers of transactions that ended in the minute. The key "commit" has the number of commits; each
    other key is a cause, and has the number of aborts with this cause."""
    return {"commit": minute.sums.commits, **minute.aborts._asdict()}


def lives(newest: IdRow, rows: Iterable[Row], minutes: Iterable[IdMinute]) -> list[Life]:
    """Returns the transactions, oldest first. `rows`: the history rows of the time that is drawn, oldest first."""
    rows = [row for row in rows if is_time(row.at_ms) and row.transition.note != REPEATED]
    found = [*of_transitions([row.transition for row in rows]), *_of_minutes(rows, minutes), *_of_newest(newest)]
    return sorted(found, key=lambda life: life.first_ms)


def of_transitions(rows: Sequence[Transition]) -> list[Life]:
    """Returns the complete transactions in `rows`, oldest first; leaves out aborts of empty transactions. `rows`:
    stored transitions, oldest first."""
    found: list[Life] = []
    prepared: Transition | None = None
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


def _complete(prepared: Transition | None, row: Transition) -> Life:
    """Returns the complete transaction. `prepared`: None if its PrepareX left no row, as in an ordinary commit."""
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


def _of_minutes(rows: Sequence[Row], minutes: Iterable[IdMinute]) -> Iterable[Life]:
    """Yields one `Life` for each minute with commits that have no rows of their own. The `Life` covers all of these
    commits. The `Life` of a single commit has the times of this commit, as far as they are known."""
    own: dict[int, list[Transition]] = {}
    for row in rows:
        if row.counted:
            own.setdefault(minute_of(row.at_ms), []).append(row.transition)
    for minute in minutes:
        first_ms, last_ms = minute.sums.first_ms, minute.sums.last_ms
        rest = _without(minute.sums, own.get(minute.minute_ms, ()))
        if rest.commits <= 0 or not (is_time(first_ms) and is_time(last_ms)):
            continue
        open_ms = round(rest.open_sum_ms / rest.opened) if rest.opened > 0 else None
        longest_ms = rest.open_max_ms if rest.opened > 0 else None
        if rest.commits == rest.opened == rest.marked == 1 and open_ms is not None:
            prepared_ms = max(last_ms - rest.marker_sum_ms, 0)
            began_ms = max(prepared_ms - open_ms, 0)
            yield Life(CauseCode.COMMIT, began_ms, prepared_ms, last_ms, open_ms=open_ms, longest_ms=open_ms)
        else:
            began_ms = max(first_ms - (open_ms or 0), 0)
            yield Life(CauseCode.COMMIT, began_ms, first_ms, last_ms, None, open_ms, longest_ms, number=rest.commits)


def _without(sums: MinuteSums[int], own: Iterable[Transition]) -> MinuteSums[int]:
    """Returns `sums` without the commits that have rows of their own (`own`). If one of these commits may have the
    longest open time, `open_max_ms` becomes 0, because the longest open time of the other commits is not known."""
    own = list(own)
    ended = sum(transition.to_state == states.COMPLETE_COMMIT for transition in own)
    opened = [
        transition.duration_ms
        for transition in own
        if transition.duration_ms is not None and transition.to_state in states.PREPARED
    ]
    marked = [
        transition.marker_ms
        for transition in own
        if transition.marker_ms is not None and transition.to_state in states.COMPLETE
    ]
    return sums._replace(
        commits=sums.commits - ended,
        opened=sums.opened - len(opened),
        open_sum_ms=max(sums.open_sum_ms - sum(opened), 0),
        open_max_ms=sums.open_max_ms if sums.open_max_ms > max(opened, default=-1) else 0,
        marked=sums.marked - len(marked),
        marker_sum_ms=max(sums.marker_sum_ms - sum(marked), 0),
    )


def _of_newest(newest: IdRow) -> Iterable[Life]:
    """Yields the transaction that is open now, if there is one and its time is valid."""
    if newest.state not in states.OPEN:
        return
    began_ms = open_since_ms(newest)
    if newest.state == states.ONGOING:
        if began_ms is not None:
            yield Life(None, began_ms, None, None, newest.record.producer_epoch)
    elif is_time(newest.state_since_ms):
        cause = CauseCode.COMMIT
        if newest.state == states.PREPARE_ABORT:
            cause = CauseCode.UNATTRIBUTED if newest.last_abort is None else newest.last_abort.cause.code
        open_ms = None if began_ms is None else max(newest.state_since_ms - began_ms, 0)
        yield Life(cause, began_ms, newest.state_since_ms, None, newest.record.producer_epoch, open_ms, open_ms)


class Phase(NamedTuple):
    """A phase of a transaction. `took`: the phase's duration or result, in words."""

    state: str
    at_ms: int
    text: str
    took: str


def phases_of(rows: Sequence[Row], offset: int | None) -> list[Phase]:
    """Returns the phases of the transaction whose PrepareX or CompleteX is at `offset`. If `offset` is None, returns
    the phases of the last transaction that left rows. Returns an empty list if there is no such transaction. `rows`:
    newest first."""
    ordered = [row.transition for row in reversed(rows)]
    ordered = [transition for transition in ordered if is_time(transition.at_ms) and transition.note != REPEATED]
    ends = [number for number, row in enumerate(ordered) if row.to_state in states.PREPARED | states.COMPLETE]
    if offset is not None:
        ends = [number for number in ends if ordered[number].offset == offset]
    if not ends:
        return []
    place = ends[-1]
    is_complete = ordered[place].to_state in states.COMPLETE
    if is_complete and place and ordered[place - 1].to_state == ordered[place].from_state:
        place -= 1
    return _phases(ordered[place:])


def _phases(rows: Sequence[Transition]) -> list[Phase]:
    """Returns the phases of the transaction with which `rows` begins. `rows`: oldest first; rows of later transactions
    may follow."""
    first, rest = rows[0], list(rows[1:])
    phases: list[Phase] = []
    if first.to_state in states.PREPARED:
        phases += _prepared(first)
        complete = rest.pop(0) if rest and rest[0].from_state == first.to_state else None
        if complete is None or complete.to_state not in states.COMPLETE:
            return phases
        phases[-1] = phases[-1]._replace(took=_markers(complete))
    else:
        complete = first
        if first.marker_ms is not None:
            prepared = NAMES.get(first.from_state, "Prepare")
            phases.append(Phase(prepared, max(first.at_ms - first.marker_ms, 0), "", _markers(first)))
    phases.append(Phase(NAMES[complete.to_state], complete.at_ms, _producer(complete), complete.note or "ended"))
    if rest and rest[0].to_state == states.EMPTY and rest[0].from_state == complete.to_state:
        after = words.fine(max(rest[0].at_ms - complete.at_ms, 0))
        phases.append(Phase("Empty", rest[0].at_ms, f"{_producer(rest[0])}, InitProducerId", f"{after} after its end"))
    return phases


def _prepared(row: Transition) -> list[Phase]:
    outcome = "commit" if row.to_state == states.PREPARE_COMMIT else "abort"
    phases = []
    if row.duration_ms is not None:
        took = f"open for {words.fine(row.duration_ms)}"
        phases.append(Phase("Ongoing", max(row.at_ms - row.duration_ms, 0), "its first partition was added", took))
    decided = f"{_producer(row)}, decided: {outcome}"
    return [*phases, Phase(NAMES[row.to_state], row.at_ms, decided, "no row shows its end")]


def _markers(complete: Transition) -> str:
    return "no partition was in it" if complete.marker_ms is None else f"markers took {words.fine(complete.marker_ms)}"


def _producer(row: Transition) -> str:
    return "" if row.producer_id == NO_ID else f"{row.producer_id} / {row.producer_epoch:,}"

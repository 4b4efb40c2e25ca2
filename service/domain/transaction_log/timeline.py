"""The timeline of an id: its notable transitions, and between them the ordinary commits, folded into counts. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from service.domain.transaction_log.minutes import minute_of
from service.domain.transaction_log.states import COMPLETE_COMMIT, NEVER_SEEN
from service.domain.transaction_log.transitions import REPEATED


class Row(NamedTuple):
    """A `journal.Transition` as it is kept. Generation, offset and number (of the row) order an id's."""

    generation: int
    offset: int
    number: int
    at_ms: int
    from_state: int
    to_state: int
    producer_id: int
    producer_epoch: int
    duration_ms: int | None
    marker_ms: int | None
    cause: str | None
    confidence: str | None
    note: str | None
    counted: bool


class Commits(NamedTuple):
    """The commits of one minute, at least one: first and last completion."""

    minute_ms: int
    commits: int
    first_ms: int
    last_ms: int


class Folded(NamedTuple):
    """Commits with no transition between them."""

    commits: int
    from_ms: int
    to_ms: int


class Mark(NamedTuple):
    """How far a timeline was told: behind which row (its generation, offset, number) and which minute, if any."""

    row: tuple[int, int, int] | None = None
    minute_ms: int | None = None


def is_from_the_beginning(oldest: Row | Folded | None) -> bool:
    """Whether this item is about the first record that the id ever had: nothing of it was there before."""
    return isinstance(oldest, Row) and oldest.from_state == NEVER_SEEN


def told(rows: Iterable[Row], minutes: Iterable[Commits], begin: Mark) -> Iterator[tuple[Row | Folded, Mark]]:
    """Items, newest first, each with the mark behind it; `rows` and `minutes` come newest first, from `begin` on.

    A minute's commits stand at the time of its last one. Commits with a row of their own are not counted again.
    Neither order is broken where clocks step back: of a row out of its time only the place among the minutes is odd.
    """
    mark, later = begin, deque[Row]()
    coming_rows, coming = iter(rows), iter(minutes)
    row, minute = next(coming_rows, None), next(coming, None)
    while row is not None or minute is not None:
        run: list[Commits] = []
        while minute is not None and (row is None or minute.last_ms >= row.at_ms):
            run.append(minute)
            minute = next(coming, None)
        if run:
            mark = mark._replace(minute_ms=run[-1].minute_ms)
            if row is not None:
                if (later[-1] if later else row).at_ms >= run[-1].minute_ms:
                    later.extend(_back_to(run[-1].minute_ms, coming_rows))
                run[-1] = _without_own_rows(run[-1], chain((row,), later))
            if folded := _fold(run):
                yield folded, mark
        elif row is not None:
            mark = mark._replace(row=(row.generation, row.offset, row.number))
            yield row, mark
            row = later.popleft() if later else next(coming_rows, None)


def _back_to(minute_ms: int, rows: Iterator[Row]) -> Iterator[Row]:
    """The rows of that minute and later, and the one that shows that these are all."""
    for row in rows:
        yield row
        if row.at_ms < minute_ms:
            return


def _without_own_rows(minute: Commits, rows: Iterable[Row]) -> Commits:
    own = sum(minute_of(row.at_ms) == minute.minute_ms and _is_counted_commit(row) for row in rows)
    return minute._replace(commits=minute.commits - own)


def _is_counted_commit(row: Row) -> bool:
    return row.counted and row.to_state == COMPLETE_COMMIT and row.note != REPEATED


def _fold(run: list[Commits]) -> Folded | None:
    some = [minute for minute in run if minute.commits > 0]
    if not some:
        return None
    return Folded(sum(minute.commits for minute in some), some[-1].first_ms, some[0].last_ms)

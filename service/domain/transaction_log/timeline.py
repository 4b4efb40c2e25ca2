"""Builds the timeline of an id: its notable transitions, and the ordinary commits between them as counts. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from service.domain.transaction_log.id_delta import minute_of
from service.domain.transaction_log.journal import Transition
from service.domain.transaction_log.states import COMPLETE_COMMIT, NEVER_SEEN
from service.domain.transaction_log.transitions import REPEATED


class Row(NamedTuple):
    """A transition as the store has it. The rows of an id are ordered by generation, offset and row number."""

    generation: int
    number: int
    counted: bool
    transition: Transition

    @property
    def place(self) -> tuple[int, int, int]:
        return self.generation, self.transition.offset, self.number

    @property
    def at_ms(self) -> int:
        return self.transition.at_ms


class Commits(NamedTuple):
    """The commits of one minute, at least one, with the times of the first and the last completion."""

    minute_ms: int
    commits: int
    first_ms: int
    last_ms: int


class Folded(NamedTuple):
    """A number of commits with no notable transition between them."""

    commits: int
    from_ms: int
    to_ms: int


class TimelineCursor(NamedTuple):
    """The place in a timeline behind which the next page begins. `row`: the last row that was returned (generation,
    offset, number); None if no row was returned yet. `minute_ms`: the last minute that was returned; None if no minute
    was returned yet."""

    row: tuple[int, int, int] | None = None
    minute_ms: int | None = None


def is_from_the_beginning(oldest: Row | Folded | None) -> bool:
    """Returns whether `oldest` is about the first record that the id ever had, so that no earlier history is
    missing."""
    return isinstance(oldest, Row) and oldest.transition.from_state == NEVER_SEEN


def timeline_items(
    rows: Iterable[Row], minutes: Iterable[Commits], begin: TimelineCursor
) -> Iterator[tuple[Row | Folded, TimelineCursor]]:
    """Yields the items, newest first, each with the cursor that continues after it. `rows` and `minutes` come newest
    first, from `begin` on.

    The commits of a minute are placed at the time of the minute's last commit. Commits with a row of their own are not
    counted again. If clocks step back, rows and minutes keep their own order, but a row may appear at an unexpected
    place among the minutes."""
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
            mark = mark._replace(row=row.place)
            yield row, mark
            row = later.popleft() if later else next(coming_rows, None)


def _back_to(minute_ms: int, rows: Iterator[Row]) -> Iterator[Row]:
    """Yields the rows at or after `minute_ms`, then the first older row, which shows that no more rows of the minute
    follow."""
    for row in rows:
        yield row
        if row.at_ms < minute_ms:
            return


def _without_own_rows(minute: Commits, rows: Iterable[Row]) -> Commits:
    own = sum(minute_of(row.at_ms) == minute.minute_ms and _is_counted_commit(row) for row in rows)
    return minute._replace(commits=minute.commits - own)


def _is_counted_commit(row: Row) -> bool:
    return row.counted and row.transition.to_state == COMPLETE_COMMIT and row.transition.note != REPEATED


def _fold(run: list[Commits]) -> Folded | None:
    some = [minute for minute in run if minute.commits > 0]
    if not some:
        return None
    return Folded(sum(minute.commits for minute in some), some[-1].first_ms, some[0].last_ms)

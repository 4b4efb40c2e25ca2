"""Adds up the commits, the aborts by cause and the durations of an id, minute by minute. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from service.domain.transaction_log import journal, outcomes
from service.domain.transaction_log.causes import CauseCode
from service.domain.transaction_log.facts import LogRecord, Minute
from service.domain.transaction_log.states import PREPARE_COMMIT

MINUTE_MS: Final = 60_000

COUNTED_AS: Final = {
    CauseCode.CLIENT_ABORT: "client",
    CauseCode.TIMEOUT: "timeout",
    CauseCode.FENCED: "fenced",
    CauseCode.ADMIN: "admin",
    CauseCode.UNATTRIBUTED: "unattributed",
}
"""By cause, the word under which `aborts` are counted in JSON, metrics and columns."""

ABORT_WORDS: Final = tuple(COUNTED_AS.values())


class MinuteDelta(NamedTuple):
    """The commit and durations that a pair of neighbouring records adds to a minute. The journal counts the aborts.

    `commits` is 0 or 1; a duration is None if the pair does not contain it.
    """

    minute_ms: int
    commits: int
    open_ms: int | None
    marker_ms: int | None


FIRST_MS: Final = -(2**62)
LAST_MS: Final = 2**62
"""Upper limit of times; FIRST_MS is the lower one. A time beyond a limit is replaced by it, because a minute at the
ends of int64 would begin or end outside of int64."""


def minute_of(ms: int) -> int:
    return min(max(ms, FIRST_MS), LAST_MS) // MINUTE_MS * MINUTE_MS


def minute_delta(before: LogRecord, after: LogRecord) -> MinuteDelta | None:
    """Returns what a pair of neighbouring records adds for a commit; None if it adds nothing.
    `spark_jobs.fold.transitions` does the same for columns of pairs."""
    commits = int(outcomes.completes_commit(before, after))
    open_ms = journal.open_ms(before, after) if after.state == PREPARE_COMMIT else None
    if not commits and open_ms is None:
        return None
    return MinuteDelta(
        minute_of(after.timestamp_ms), commits, open_ms, journal.marker_ms(before, after) if commits else None
    )


@dataclass(slots=True)
class MinuteSums:
    """The sums of one minute of an id: those of `facts.Minute`, and its aborts by the words of COUNTED_AS."""

    commits: int = 0
    aborts: Counter[str] = field(default_factory=Counter)
    opened: int = 0
    open_sum_ms: int = 0
    open_max_ms: int = 0
    marked: int = 0
    marker_sum_ms: int = 0
    marker_max_ms: int = 0
    first_ms: int = 0
    last_ms: int = 0

    def add(self, more: Minute) -> None:
        self.opened += more.opened
        self.open_sum_ms += more.open_sum_ms
        self.open_max_ms = max(self.open_max_ms, more.open_max_ms)
        self.marked += more.marked
        self.marker_sum_ms += more.marker_sum_ms
        self.marker_max_ms = max(self.marker_max_ms, more.marker_max_ms)
        self._completed(more.commits, more.first_ms, more.last_ms)

    def add_pair(self, at_ms: int, delta: MinuteDelta) -> None:
        self._completed(delta.commits, at_ms, at_ms)
        if delta.open_ms is not None:
            self.add_open(delta.open_ms)
        if delta.marker_ms is not None:
            self.add_marker(delta.marker_ms)

    def add_open(self, ms: int) -> None:
        self.opened += 1
        self.open_sum_ms += ms
        self.open_max_ms = max(self.open_max_ms, ms)

    def add_marker(self, ms: int) -> None:
        self.marked += 1
        self.marker_sum_ms += ms
        self.marker_max_ms = max(self.marker_max_ms, ms)

    def _completed(self, commits: int, first_ms: int, last_ms: int) -> None:
        if commits:
            self.first_ms = min(self.first_ms or first_ms, first_ms)
            self.last_ms = max(self.last_ms, last_ms)
            self.commits += commits

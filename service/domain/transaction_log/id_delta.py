"""Turns new records of one id into rows of its history, counts, and the cause of its last abort; adds up its commits,
aborts and durations, minute by minute. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from service.domain.transaction_log import journal, outcomes, states, transitions
from service.domain.transaction_log.causes import Cause, CauseCode
from service.domain.transaction_log.facts import NO_RECORD, LogRecord, Minute, Run, Step
from service.domain.transaction_log.journal import JudgedPair, LastAbort, Transition
from service.domain.transaction_log.outcomes import MARKER, OPEN
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


COMMIT, ABORT = "commit", "abort"
_PREPARED = (states.PREPARE_COMMIT, states.PREPARE_ABORT)


@dataclass(slots=True)
class IdDelta:
    """Everything that new records add to an id, collected while its pairs are judged one after another. Records that do
    not count leave the counts unchanged.
    """

    last_abort: LastAbort
    transitions: list[Transition] = field(default_factory=list)
    revised: list[tuple[int, Cause]] = field(default_factory=list)
    minutes: dict[int, MinuteSums] = field(default_factory=dict)
    commits: int = 0
    ended_aborts: int = 0
    aborts: Counter[str] = field(default_factory=Counter)
    expired: int = 0
    durations: list[tuple[str, str, int]] = field(default_factory=list)
    """(outcome, kind, ms) of the pairs judged here; the durations of folded commits arrive as histograms."""
    last_outcome: int | None = None
    newest_prepare: LogRecord = NO_RECORD
    """The newest PrepareX in the pairs so far, with the append time of the first PrepareX of its transaction."""

    def minute_sums(self, at_ms: int) -> MinuteSums:
        return self.minutes.setdefault(minute_of(at_ms), MinuteSums())


def judge_records(
    before: LogRecord,
    last_abort: LastAbort,
    runs: Sequence[Run],
    steps: Iterable[Step],
    folded: Iterable[Minute],
    *,
    counts: bool,
    full_history: bool,
) -> IdDelta:
    """Judges the new records of an id, all of one log partition.

    `before` is the id's last stored record (NO_RECORD: none); if that is a PrepareX, it has the append time of the
    first one of its transaction. With `full_history` plain steps get a row, too.
    """
    delta = IdDelta(last_abort, newest_prepare=before)
    first_pair = [] if runs[0].joined else [(before, runs[0].first)]
    inner_pairs = sorted(((step.before, step.after) for step in steps), key=lambda pair: pair[1].offset)
    pairs = list(_with_first_append_times(delta, [*first_pair, *inner_pairs]))
    if counts:
        for pair in first_pair:
            _count_first_commit(delta, *pair)
        for pair in pairs[len(first_pair) :]:
            _count_markers(delta, *pair)
    for minute in folded:
        delta.minute_sums(minute.minute_ms).add(minute)
        delta.commits += minute.commits
    delta.last_outcome = _outcome(runs, pairs)
    for earlier, later in pairs:
        if earlier.state == states.NEVER_SEEN and not counts:
            continue  # uncounted: the oldest record of the id that the log still has
        is_plain = bool(transitions.is_plain(earlier, later))
        if is_plain and not full_history:
            continue
        judged = journal.judge(delta.last_abort, earlier, later, counts=counts)
        if is_plain:
            delta.transitions.append(judged.transition)
        else:
            _add_pair(delta, earlier, later, judged, counts, full_history=full_history)
    return delta


def _with_first_append_times(
    delta: IdDelta, pairs: Iterable[tuple[LogRecord, LogRecord]]
) -> Iterator[tuple[LogRecord, LogRecord]]:
    """Yields the pairs; a PrepareX that was appended again gets the append time of the first one of its transaction."""
    for before, after in pairs:
        earlier = delta.newest_prepare if before.offset == delta.newest_prepare.offset else before
        if after.state in _PREPARED:
            delta.newest_prepare = journal.with_first_append_time(earlier, after)
        yield earlier, after


def _outcome(runs: Sequence[Run], pairs: Sequence[tuple[LogRecord, LogRecord]]) -> int | None:
    """Returns the state that shows the newest outcome: the newest PrepareX with partitions, or a CompleteX without a
    known PrepareX. None if there is neither."""
    ends = [(run.ended_offset, run.ended_state) for run in runs if run.ended_value is not None]
    for before, after in pairs:
        is_complete = after.state in states.COMPLETE
        if is_complete and before.state not in states.OPEN and not transitions.is_repetition(before, after):
            ends.append((after.offset, after.state))
    return max(ends)[1] if ends else None


def _count_first_commit(delta: IdDelta, before: LogRecord, after: LogRecord) -> None:
    added = minute_delta(before, after)
    if added is None:
        return
    delta.minute_sums(added.minute_ms).add_pair(after.timestamp_ms, added)
    delta.commits += added.commits
    if added.open_ms is not None:
        delta.durations.append((COMMIT, OPEN, added.open_ms))
    if added.marker_ms is not None:
        delta.durations.append((COMMIT, MARKER, added.marker_ms))


def _count_markers(delta: IdDelta, before: LogRecord, after: LogRecord) -> None:
    """Counts the marker duration of a commit among the steps. The executors count those of all other commits."""
    added = minute_delta(before, after)
    if added is not None and added.marker_ms is not None:
        delta.minute_sums(added.minute_ms).add_marker(added.marker_ms)
        delta.durations.append((COMMIT, MARKER, added.marker_ms))


def _add_pair(
    delta: IdDelta, before: LogRecord, after: LogRecord, judged: JudgedPair, counts: bool, *, full_history: bool
) -> None:
    delta.last_abort = judged.last_abort
    if judged.revised is not None:
        delta.revised.append(judged.revised)
    newest = delta.transitions[-1].offset if delta.transitions else None
    if judged.decision is not None and judged.decision.offset != newest:  # else it was odd, and has its row already
        delta.transitions.append(judged.decision)
    if judged.is_notable or (full_history and before.state != states.NEVER_SEEN):
        delta.transitions.append(judged.transition)
    for cause, completed_at_ms in judged.aborts:
        word = COUNTED_AS[cause]
        delta.aborts[word] += 1
        delta.minute_sums(completed_at_ms).aborts[word] += 1
    if not counts:
        return
    delta.ended_aborts += bool(outcomes.completes_abort(before, after))
    row = judged.transition
    delta.expired += row.cause == CauseCode.EXPIRY and before.state != states.EXPIRED
    if row.duration_ms is not None and after.state == states.PREPARE_ABORT:
        delta.durations.append((ABORT, OPEN, row.duration_ms))
        delta.minute_sums(after.timestamp_ms).add_open(row.duration_ms)
    if row.marker_ms is not None and after.state == states.COMPLETE_ABORT:
        delta.durations.append((ABORT, MARKER, row.marker_ms))
        delta.minute_sums(after.timestamp_ms).add_marker(row.marker_ms)

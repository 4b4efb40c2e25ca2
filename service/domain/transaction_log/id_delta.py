"""Turns new records of one id into rows of its history, counts, and the cause of its last abort. Adds up its commits,
aborts and durations, minute by minute. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from service.domain.transaction_log import journal, outcomes, states, transitions
from service.domain.transaction_log.causes import Cause, CauseCode
from service.domain.transaction_log.facts import NO_RECORD, LogRecord, Minute, MinuteSums, Run, Step
from service.domain.transaction_log.journal import JudgedPair, LastAbort, Transition
from service.domain.transaction_log.outcomes import MARKER, OPEN
from service.domain.transaction_log.states import PREPARE_COMMIT

MINUTE_MS: Final = 60_000


class Aborts(NamedTuple):
    """Numbers of aborted transactions: one field for each cause, with the name that JSON, metrics and columns use."""

    client: int = 0
    timeout: int = 0
    fenced: int = 0
    admin: int = 0
    unattributed: int = 0

    def plus(self, more: Mapping[str, int]) -> Aborts:
        """Returns these counts plus the counts in `more`, cause by cause."""
        return Aborts(*(number + more.get(word, 0) for word, number in zip(self._fields, self, strict=True)))


COUNTED_AS: Final = {
    CauseCode.CLIENT_ABORT: "client",
    CauseCode.TIMEOUT: "timeout",
    CauseCode.FENCED: "fenced",
    CauseCode.ADMIN: "admin",
    CauseCode.UNATTRIBUTED: "unattributed",
}
"""Maps a cause to the field of Aborts that counts the aborts with this cause."""


FIRST_MS: Final = -(2**62)
LAST_MS: Final = 2**62
"""Upper limit of times; FIRST_MS is the lower limit. A time beyond a limit is replaced by the limit, so that its minute
begins and ends inside of int64."""


def minute_of(ms: int) -> int:
    return min(max(ms, FIRST_MS), LAST_MS) // MINUTE_MS * MINUTE_MS


def sums_of(at_ms: int, commits: int = 0, open_ms: int | None = None, marker_ms: int | None = None) -> MinuteSums[int]:
    """Returns the sums of a single transaction. `commits` is 0 or 1; a duration that is None is not counted. `at_ms`:
    the time of the completion, used only if `commits` is 1."""
    opened, marked = open_ms is not None, marker_ms is not None
    open_sum_ms, marker_sum_ms, end_ms = open_ms or 0, marker_ms or 0, at_ms if commits else 0
    return MinuteSums(
        commits, int(opened), open_sum_ms, open_sum_ms, int(marked), marker_sum_ms, marker_sum_ms, end_ms, end_ms
    )


def commit_sums(before: LogRecord, after: LogRecord) -> MinuteSums[int] | None:
    """Returns the sums that a pair of neighbouring records of a commit adds to the minute of `after`; None if the pair
    adds nothing. Aborts are counted in `journal`. `spark_jobs.fold.transitions` does the same for columns of pairs."""
    commits = int(outcomes.completes_commit(before, after))
    open_ms = journal.open_ms(before, after) if after.state == PREPARE_COMMIT else None
    if not commits and open_ms is None:
        return None
    return sums_of(after.timestamp_ms, commits, open_ms, journal.marker_ms(before, after) if commits else None)


class IdMinute(NamedTuple):
    """The transactions of an id that ended in one minute, and how long they took; the mean durations are `open_sum_ms`
    / `opened` and `marker_sum_ms` / `marked`."""

    minute_ms: int
    sums: MinuteSums[int] = MinuteSums(0, 0, 0, 0, 0, 0, 0, 0, 0)
    aborts: Aborts = Aborts()

    def plus(self, more: MinuteSums[int]) -> IdMinute:
        sums = self.sums
        first_ms, last_ms = sums.first_ms, sums.last_ms
        if more.commits:
            first_ms, last_ms = min(first_ms or more.first_ms, more.first_ms), max(last_ms, more.last_ms)
        return self._replace(
            sums=MinuteSums(
                sums.commits + more.commits,
                sums.opened + more.opened,
                sums.open_sum_ms + more.open_sum_ms,
                max(sums.open_max_ms, more.open_max_ms),
                sums.marked + more.marked,
                sums.marker_sum_ms + more.marker_sum_ms,
                max(sums.marker_max_ms, more.marker_max_ms),
                first_ms,
                last_ms,
            )
        )

    def with_abort(self, word: str) -> IdMinute:
        """Returns the minute with one more abort, counted under `word`."""
        return self._replace(aborts=self.aborts.plus({word: 1}))


COMMIT, ABORT = "commit", "abort"
_PREPARED = (states.PREPARE_COMMIT, states.PREPARE_ABORT)


@dataclass(slots=True)
class IdDelta:
    """Everything that new records add to an id. It is collected while each record of the id is judged together with
    the record before. Records outside
    the counted part of the log leave the counts unchanged."""

    last_abort: LastAbort
    transitions: list[Transition] = field(default_factory=list)
    revised: list[tuple[int, Cause]] = field(default_factory=list)
    minutes: dict[int, IdMinute] = field(default_factory=dict)
    commits: int = 0
    ended_aborts: int = 0
    aborts: Counter[str] = field(default_factory=Counter)
    expired: int = 0
    durations: list[tuple[str, str, int]] = field(default_factory=list)
    """The durations of the pairs judged here, as (outcome, kind, ms). The durations of folded commits arrive as
    histograms."""
    last_outcome: int | None = None
    newest_prepare: LogRecord = NO_RECORD
    """The newest PrepareX in the pairs so far, with the append time of the first PrepareX of its transaction."""

    def minute(self, at_ms: int) -> IdMinute:
        minute_ms = minute_of(at_ms)
        return self.minutes.get(minute_ms) or IdMinute(minute_ms)

    def add(self, at_ms: int, more: MinuteSums[int]) -> None:
        minute = self.minute(at_ms)
        self.minutes[minute.minute_ms] = minute.plus(more)


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

    `before` is the id's last stored record (NO_RECORD: none); if it is a PrepareX, its time is the append time of the
    first PrepareX of its transaction. With `full_history`, plain steps get a row, too.
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
        delta.add(minute.minute_ms, minute.sums)
        delta.commits += minute.sums.commits
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
    """Yields the pairs. If a PrepareX that was appended again is the first record of a pair, it gets the append time of
    the first PrepareX of its transaction. Keeps `delta.newest_prepare` up to date."""
    for before, after in pairs:
        earlier = delta.newest_prepare if before.offset == delta.newest_prepare.offset else before
        if after.state in _PREPARED:
            delta.newest_prepare = journal.with_first_append_time(earlier, after)
        yield earlier, after


def _outcome(runs: Sequence[Run], pairs: Sequence[tuple[LogRecord, LogRecord]]) -> int | None:
    """Returns the state that shows the newest outcome: the newest PrepareX with partitions, or a CompleteX that follows
    no PrepareX and repeats no CompleteX. Returns None if there is neither."""
    ends = [(run.ended_offset, run.ended_state) for run in runs if run.ended_value is not None]
    for before, after in pairs:
        is_complete = after.state in states.COMPLETE
        if is_complete and before.state not in _PREPARED and not transitions.is_repetition(before, after):
            ends.append((after.offset, after.state))
    return max(ends)[1] if ends else None


def _count_first_commit(delta: IdDelta, before: LogRecord, after: LogRecord) -> None:
    added = commit_sums(before, after)
    if added is None:
        return
    delta.add(after.timestamp_ms, added)
    delta.commits += added.commits
    if added.opened:
        delta.durations.append((COMMIT, OPEN, added.open_sum_ms))
    if added.marked:
        delta.durations.append((COMMIT, MARKER, added.marker_sum_ms))


def _count_markers(delta: IdDelta, before: LogRecord, after: LogRecord) -> None:
    """Counts the marker duration of a commit that is among the steps. The executors count the marker durations of all
    other commits."""
    added = commit_sums(before, after)
    if added is not None and added.marked:
        delta.add(after.timestamp_ms, sums_of(0, marker_ms=added.marker_sum_ms))
        delta.durations.append((COMMIT, MARKER, added.marker_sum_ms))


def _add_pair(
    delta: IdDelta, before: LogRecord, after: LogRecord, judged: JudgedPair, counts: bool, *, full_history: bool
) -> None:
    delta.last_abort = judged.last_abort
    if judged.revised is not None:
        delta.revised.append(judged.revised)
    newest = delta.transitions[-1].offset if delta.transitions else None
    if judged.decision is not None and judged.decision.offset != newest:  # a notable one has a row already
        delta.transitions.append(judged.decision)
    if judged.is_notable or (full_history and before.state != states.NEVER_SEEN):
        delta.transitions.append(judged.transition)
    for cause, completed_at_ms in judged.aborts:
        word = COUNTED_AS[cause]
        delta.aborts[word] += 1
        minute = delta.minute(completed_at_ms).with_abort(word)
        delta.minutes[minute.minute_ms] = minute
    if not counts:
        return
    delta.ended_aborts += bool(outcomes.completes_abort(before, after))
    row = judged.transition
    delta.expired += row.cause == CauseCode.EXPIRY and before.state != states.EXPIRED
    if row.duration_ms is not None and after.state == states.PREPARE_ABORT:
        delta.durations.append((ABORT, OPEN, row.duration_ms))
        delta.add(after.timestamp_ms, sums_of(0, open_ms=row.duration_ms))
    if row.marker_ms is not None and after.state == states.COMPLETE_ABORT:
        delta.durations.append((ABORT, MARKER, row.marker_ms))
        delta.add(after.timestamp_ms, sums_of(0, marker_ms=row.marker_ms))

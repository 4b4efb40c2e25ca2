"""Turns new records of one id into rows of its history, counts, minutes, and the cause of its last abort. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from service.domain.transaction_log import causes, journal, minutes, outcomes, states, transitions
from service.domain.transaction_log.causes import Cause
from service.domain.transaction_log.facts import UNSEEN, LogRecord, Minute, Run, Step
from service.domain.transaction_log.journal import Judged, LastAbort, Transition
from service.domain.transaction_log.minutes import COUNTED_AS, Cell
from service.domain.transaction_log.outcomes import MARKER, OPEN

COMMIT, ABORT = "commit", "abort"
_PREPARED = (states.PREPARE_COMMIT, states.PREPARE_ABORT)


@dataclass(slots=True)
class Story:
    """Everything that new records add to an id, collected while its pairs are judged one after another. Records that do
    not count leave the counts unchanged.
    """

    last_abort: LastAbort
    transitions: list[Transition] = field(default_factory=list)
    revised: list[tuple[int, Cause]] = field(default_factory=list)
    cells: dict[int, Cell] = field(default_factory=dict)
    commits: int = 0
    ended_aborts: int = 0
    aborts: Counter[str] = field(default_factory=Counter)
    expired: int = 0
    durations: list[tuple[str, str, int]] = field(default_factory=list)
    """(outcome, kind, ms) of the pairs judged here; the durations of folded commits arrive as histograms."""
    last_outcome: int | None = None
    newest_prepare: LogRecord = UNSEEN
    """The newest PrepareX in the pairs so far, with the append time of the first PrepareX of its transaction."""

    def cell(self, at_ms: int) -> Cell:
        return self.cells.setdefault(minutes.minute_of(at_ms), Cell())


def tell(
    before: LogRecord,
    last_abort: LastAbort,
    runs: Sequence[Run],
    steps: Iterable[Step],
    folded: Iterable[Minute],
    *,
    counts: bool,
    keeps_all: bool,
) -> Story:
    """Judges the new records of an id, all of one log partition.

    `before` is the id's last stored record (UNSEEN: none); if that is a PrepareX, it has the append time of the first
    one of its transaction. With `keeps_all` plain steps get a row, too.
    """
    story = Story(last_abort, newest_prepare=before)
    border = [] if runs[0].joined else [(before, runs[0].first)]
    told = sorted(((step.before, step.after) for step in steps), key=lambda pair: pair[1].offset)
    pairs = list(_counted_from_first(story, [*border, *told]))
    if counts:
        for pair in border:
            _count_commit(story, *pair)
        for pair in pairs[len(border) :]:
            _count_markers(story, *pair)
    for minute in folded:
        story.cell(minute.minute_ms).add(minute)
        story.commits += minute.commits
    story.last_outcome = _outcome(runs, pairs)
    for earlier, later in pairs:
        if earlier.state == states.NEVER_SEEN and not counts:
            continue  # uncounted: the oldest record of the id that the log still has
        is_plain = bool(transitions.is_plain(earlier, later))
        if is_plain and not keeps_all:
            continue
        judged = journal.judge(story.last_abort, earlier, later, counts=counts)
        if is_plain:
            story.transitions.append(judged.transition)
        else:
            _take(story, earlier, later, judged, counts)
    return story


def _counted_from_first(
    story: Story, pairs: Iterable[tuple[LogRecord, LogRecord]]
) -> Iterator[tuple[LogRecord, LogRecord]]:
    """Yields the pairs; a PrepareX that was appended again gets the append time of the first one of its transaction."""
    for before, after in pairs:
        earlier = story.newest_prepare if before.offset == story.newest_prepare.offset else before
        if after.state in _PREPARED:
            story.newest_prepare = journal.counted_from_first(earlier, after)
        yield earlier, after


def _outcome(runs: Sequence[Run], pairs: Sequence[tuple[LogRecord, LogRecord]]) -> int | None:
    """Returns the state that shows the newest outcome: the newest PrepareX with partitions, or a CompleteX without a
    known PrepareX. None if there is neither."""
    ends = [(run.ended_offset, run.ended_state) for run in runs if run.ended_value is not None]
    for before, after in pairs:
        is_complete = after.state in (states.COMPLETE_COMMIT, states.COMPLETE_ABORT)
        if is_complete and before.state not in states.OPEN and not transitions.is_repetition(before, after):
            ends.append((after.offset, after.state))
    return max(ends)[1] if ends else None


def _count_commit(story: Story, before: LogRecord, after: LogRecord) -> None:
    told = minutes.told(before, after)
    if told is None:
        return
    story.cell(told.minute_ms).add_pair(after.timestamp_ms, told)
    story.commits += told.commits
    if told.open_ms is not None:
        story.durations.append((COMMIT, OPEN, told.open_ms))
    if told.marker_ms is not None:
        story.durations.append((COMMIT, MARKER, told.marker_ms))


def _count_markers(story: Story, before: LogRecord, after: LogRecord) -> None:
    """Counts the marker duration of a commit among the steps. The executors count those of all other commits."""
    told = minutes.told(before, after)
    if told is not None and told.marker_ms is not None:
        story.cell(told.minute_ms).add_marker(told.marker_ms)
        story.durations.append((COMMIT, MARKER, told.marker_ms))


def _take(story: Story, before: LogRecord, after: LogRecord, judged: Judged, counts: bool) -> None:
    story.last_abort = judged.last_abort
    if judged.revised is not None:
        story.revised.append(judged.revised)
    newest = story.transitions[-1].offset if story.transitions else None
    if judged.decision is not None and judged.decision.offset != newest:  # else it was odd, and has its row already
        story.transitions.append(judged.decision)
    if judged.is_notable:
        story.transitions.append(judged.transition)
    for cause, completed_at_ms in judged.aborts:
        word = COUNTED_AS[cause]
        story.aborts[word] += 1
        story.cell(completed_at_ms).aborts[word] += 1
    if not counts:
        return
    story.ended_aborts += bool(outcomes.aborts(before, after))
    row = judged.transition
    story.expired += row.cause == causes.EXPIRY and before.state != states.EXPIRED
    if row.duration_ms is not None and after.state == states.PREPARE_ABORT:
        story.durations.append((ABORT, OPEN, row.duration_ms))
        story.cell(after.timestamp_ms).add_open(row.duration_ms)
    if row.marker_ms is not None and after.state == states.COMPLETE_ABORT:
        story.durations.append((ABORT, MARKER, row.marker_ms))
        story.cell(after.timestamp_ms).add_marker(row.marker_ms)

"""Judges two neighbouring records of an id: returns the row of its history, the cause of an abort, and the aborts to
count.

Pairs are judged one after another in the order of the log; only a `LastAbort` has to be remembered between them. So the
result does not depend on where one read ends and the next begins. Executors judge no causes; they leave out plain
pairs, and count them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from service.domain.transaction_log import causes, outcomes, transitions
from service.domain.transaction_log.causes import Cause, CauseCode, Confidence
from service.domain.transaction_log.facts import LogRecord
from service.domain.transaction_log.outcomes import duration_between
from service.domain.transaction_log.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    NEVER_SEEN,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)

_CLOCKS_MS: Final = 5_000
"""Allowed difference (ms) between the clocks of two brokers."""

SETTLES_AFTER_MS: Final = causes.FOLLOWS_WITHIN_MS + _CLOCKS_MS
"""Time (ms) from an abort's CompleteAbort until no record can change the code of the abort's cause any more. The
confidence of a CLIENT_ABORT may still rise later (`causes.refine`)."""

ADMIN_SETTLES_AFTER_MS: Final = causes.RETURNS_WITHIN_MS + _CLOCKS_MS
"""Time (ms) from an abort's CompleteAbort until no record can change the cause ADMIN any more. Until then the
application may come back, which shows that its own framework fenced it."""


class LastAbort(NamedTuple):
    """The newest PrepareAbort of an id: its offset (-1: none), its cause, and the time of its CompleteAbort.

    `counts`: True if the CompleteAbort lies in the part of the log that is counted.
    """

    offset: int
    cause: Cause
    completed_at_ms: int | None
    counts: bool

    @property
    def is_waiting(self) -> bool:
        """Returns whether the abort is complete, and the next record may still change its cause. Until the cause is
        final, the abort is not counted."""
        return self.cause.is_open and self.completed_at_ms is not None

    @property
    def settles_at_ms(self) -> int | None:
        """Returns the time after which no record can change the cause's code (CauseCode). Returns None if the abort is
        not complete, or if the cause is final already."""
        if not self.cause.is_open or self.completed_at_ms is None:
            return None
        is_admin = self.cause.code == CauseCode.ADMIN
        return self.completed_at_ms + (ADMIN_SETTLES_AFTER_MS if is_admin else SETTLES_AFTER_MS)


NO_ABORT: Final = LastAbort(-1, Cause(CauseCode.UNATTRIBUTED, Confidence.AMBIGUOUS), None, False)


class Transition(NamedTuple):
    """A row of an id's history, about the record at `offset`. A duration is None if the records do not contain it."""

    offset: int
    at_ms: int
    from_state: int
    to_state: int
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    duration_ms: int | None
    marker_ms: int | None
    cause: CauseCode | None
    confidence: Confidence | None
    note: str | None


class JudgedPair(NamedTuple):
    """The result of judging two neighbouring records of an id (`judge`).

    - `decision`: a row for the first record, if it is a PrepareCommit and the pair is notable; else None. The history
      may have this row already.
    - `revised`: the offset of an earlier row that gets another cause, and the new cause; None if all rows keep theirs.
    - `aborts`: the aborts that count from this pair on, each as (cause, time of its completion).
    """

    last_abort: LastAbort
    transition: Transition
    is_notable: bool
    decision: Transition | None
    revised: tuple[int, Cause] | None
    aborts: tuple[tuple[CauseCode, int], ...]


def judge(last_abort: LastAbort, before: LogRecord, after: LogRecord, *, counts: bool) -> JudgedPair:
    """Judges a pair. `before` is NO_RECORD if the predecessor is not known. `counts`: True if `after` lies in the part
    of the log that is counted."""
    revised: tuple[int, Cause] | None = None
    aborts: list[tuple[CauseCode, int]] = []
    note = transitions.anomaly(before, after)
    repeated = before.state != NEVER_SEEN and bool(transitions.is_repetition(before, after))
    if last_abort.completed_at_ms is not None and not repeated:
        cause = causes.refine(last_abort.cause, last_abort.completed_at_ms, before, after)
        if cause[:2] != last_abort.cause[:2]:
            revised = (last_abort.offset, cause)
        if last_abort.is_waiting and last_abort.counts and not cause.is_open:
            aborts.append((cause.code, last_abort.completed_at_ms))
        last_abort = last_abort._replace(cause=cause)
    cause_here = None if repeated else causes.cause_of(before, after)
    if cause_here is not None and after.state == PREPARE_ABORT:
        last_abort = LastAbort(after.offset, cause_here, None, False)
    elif outcomes.completes_abort(before, after):
        prepared = last_abort if _is_completion(before, after) else NO_ABORT
        last_abort = prepared._replace(completed_at_ms=after.timestamp_ms, counts=counts)
        if counts and not last_abort.cause.is_open:
            aborts.append((last_abort.cause.code, after.timestamp_ms))
    is_notable = _is_notable(before, after, cause_here, note)
    return JudgedPair(
        last_abort,
        _transition(before.state, after, open_ms(before, after), marker_ms(before, after), cause_here, note),
        is_notable,
        _decision(before) if is_notable and before.state == PREPARE_COMMIT else None,
        revised,
        tuple(aborts),
    )


def settle(last_abort: LastAbort) -> LastAbort:
    """Returns the abort with its cause made final, because no record came in time to change it. The final cause may be
    more certain than before. The caller gives the cause to the abort's row and, if the abort counts, counts it under
    this cause."""
    return last_abort._replace(cause=causes.settled(last_abort.cause))


def open_ms(before: LogRecord, after: LogRecord) -> int | None:
    """Returns the time for which a transaction was open until `after` ended it: from its first partition to the append
    of PrepareX. None if `after` ends nothing or repeats an end, or if the start is not known."""
    return None if transitions.is_repetition(before, after) else _open_until(after)


def marker_ms(before: LogRecord, after: LogRecord) -> int | None:
    """Returns the time that the markers took: between the appends of PrepareX and CompleteX (by the timestamps of the
    records, not by the times inside their values). None if the pair is not a PrepareX and its CompleteX, or if the
    transaction has no partitions.

    `before` is a record that `with_first_append_time` returned.
    """
    if not _is_completion(before, after) or before.partition_count == 0:
        return None
    return duration_between(before.timestamp_ms, after.timestamp_ms)


def with_first_append_time(before: LogRecord, after: LogRecord) -> LogRecord:
    """Returns `after`, with the append time of `before` if `after` repeats the PrepareX `before`. For a third PrepareX
    the caller passes the earlier result as `before`, so that the time of the first append is kept."""
    return after._replace(timestamp_ms=before.timestamp_ms) if transitions.is_prepared_again(before, after) else after


def _open_until(prepare: LogRecord) -> int | None:
    is_end = prepare.state in (PREPARE_COMMIT, PREPARE_ABORT) and prepare.partition_count != 0
    if not is_end or prepare.start_ms <= 0:
        return None
    return duration_between(prepare.start_ms, prepare.timestamp_ms)


def _decision(prepare: LogRecord) -> Transition:
    """Returns the row of a PrepareCommit from its record alone, because its own step may have been left out as plain.
    The previous state is Ongoing, because Kafka writes PrepareCommit only after Ongoing."""
    return _transition(ONGOING, prepare, _open_until(prepare), None, causes.cause_of_commit(prepare), None)


def _is_completion(before: LogRecord, after: LogRecord) -> bool:
    pair = (before.state, after.state)
    ends = pair in ((PREPARE_COMMIT, COMPLETE_COMMIT), (PREPARE_ABORT, COMPLETE_ABORT))
    return ends and transitions.is_same_transaction(before, after)


def _transition(
    from_state: int,
    record: LogRecord,
    duration_ms: int | None,
    markers_ms: int | None,
    cause: Cause | None,
    note: str | None,
) -> Transition:
    at, producer = (record.offset, record.timestamp_ms), (record.producer_id, record.producer_epoch, record.timeout_ms)
    code, confidence = (None, None) if cause is None else cause[:2]
    return Transition(*at, from_state, record.state, *producer, duration_ms, markers_ms, code, confidence, note)


def _is_notable(before: LogRecord, after: LogRecord, cause: Cause | None, note: str | None) -> bool:
    """Returns whether the step gets a row of its own. Other steps are folded into counts."""
    if note is not None or after.state in (PREPARE_ABORT, COMPLETE_ABORT):
        return True
    slow = (marker_ms(before, after) or 0) >= transitions.SLOW_MARKERS_MS
    return slow or (cause is not None and cause.code != CauseCode.COMMIT)

"""Which record may follow which in the log of one transactional.id.

Source: `TransactionState.java` (VALID_PREVIOUS_STATES, with the edges of TV2 since 4.0: an abort may begin where
nothing was added). The log can show other sequences too: an append that failed for the coordinator may lie there all
the same (`TransactionStateManager.updateCacheCallback`). They are facts to report; the newest record is the truth.
"""

from __future__ import annotations

from typing import Any, Final

from service.domain.transaction_log.facts import NO_ID, LogRecord
from service.domain.transaction_log.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    EXPIRED,
    NAMES,
    NEVER_SEEN,
    ONGOING,
    OPEN,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    UNKNOWN,
)

_IDLE: Final = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})

BEFORE: Final[dict[int, frozenset[int]]] = {
    EMPTY: _IDLE | {EXPIRED},
    ONGOING: _IDLE | {ONGOING},
    PREPARE_COMMIT: frozenset({ONGOING}),
    PREPARE_ABORT: _IDLE | {ONGOING},
    COMPLETE_COMMIT: frozenset({PREPARE_COMMIT}),
    COMPLETE_ABORT: frozenset({PREPARE_ABORT}),
    EXPIRED: _IDLE,
}
"""States that may come before each."""

LAST_EPOCH: Final = 32_767
"""Reserved for the coordinator's last PrepareX under a producer id."""

SLOW_MARKERS_MS: Final = 1_000
"""From here on the phase between Prepare and Complete is worth rows of its own: of the decision, and of its end."""


REPEATED: Final = "written again: the coordinator repeats an append whose answer it missed"
_WHY_ODD: Final = "a failed append, or records are gone"


def oddity(before: LogRecord, after: LogRecord) -> str | None:
    """What is strange about `after` following `before`, in words; None if Kafka does that."""
    if NEVER_SEEN in (before.state, after.state) or UNKNOWN in (before.state, after.state):
        return None
    if is_repetition(before, after):
        return REPEATED
    if before.state not in BEFORE[after.state]:
        return f"Kafka allows no {NAMES[after.state]} after {NAMES[before.state]}: {_WHY_ODD}"
    if before.state in OPEN and not is_same_transaction(before, after):
        return f"the record before speaks of another transaction, which has no end here: {_WHY_ODD}"
    if before.state in _IDLE and after.state in OPEN and not _may_begin(before, after):
        return f"what led to this is not here: {_WHY_ODD}"
    return None


def _may_begin(before: LogRecord, after: LogRecord) -> bool:
    """A new producer id comes with Empty or CompleteX; an abort that begins here has nothing to abort."""
    is_abort_of_something = after.state == PREPARE_ABORT and after.partition_count > 0
    return before.producer_id == after.producer_id and not is_abort_of_something


def is_same_transaction(before: Any, after: Any) -> Any:
    """Records, or columns of them: same start, same producer id or its successor.

    Under TV2 the producer id may change on the CompleteX record; before 4.3 no tag says so (KAFKA-20310), but then the
    epoch was the last one.
    """
    untagged = (after.previous_producer_id == NO_ID) & (before.producer_epoch == LAST_EPOCH)
    named = (after.previous_producer_id == before.producer_id) | untagged
    rotated = named & (before.producer_id != NO_ID) & (after.producer_epoch == 0)
    return (before.start_ms == after.start_ms) & ((before.producer_id == after.producer_id) | rotated)


def is_repetition(before: Any, after: Any) -> Any:
    """Records, or columns of them: the same step again. An Ongoing record that adds partitions is not meant.

    What is repeated after a failed append has another update time; a repeated InitProducerId has the epoch and the
    timeout of the first. An abort of something does not repeat an abort of nothing: they count differently.
    """
    aborts_as_much = (before.partition_count == 0) == (after.partition_count == 0)
    return (
        (before.state == after.state)
        & (after.state != ONGOING)
        & (before.producer_id == after.producer_id)
        & (before.producer_epoch == after.producer_epoch)
        & (before.start_ms == after.start_ms)
        & ((after.state != EMPTY) | (before.timeout_ms == after.timeout_ms))
        & ((after.state != PREPARE_ABORT) | aborts_as_much)
    )


def is_prepared_again(before: Any, after: Any) -> Any:
    """Records, or columns of them: PrepareX of a transaction that was decided so before. Unlike a repetition it may
    have another epoch: a client's abort that seemed to fail, then the coordinator's at the timeout.
    """
    is_prepared = (after.state == PREPARE_COMMIT) | (after.state == PREPARE_ABORT)
    return (before.state == after.state) & is_prepared & is_same_transaction(before, after)


def is_plain(before: Any, after: Any) -> Any:
    """Records, or columns of them: a step of an ordinary commit that calls for no row of its own."""
    same_producer = before.producer_id == after.producer_id
    goes_on = same_producer & (before.start_ms == after.start_ms)
    is_idle = (before.state == EMPTY) | (before.state == COMPLETE_COMMIT)
    begins = (after.state == ONGOING) & is_idle & same_producer
    grows = (after.state == ONGOING) & (before.state == ONGOING) & goes_on
    commits = (after.state == PREPARE_COMMIT) & (before.state == ONGOING) & goes_on
    completes = (after.state == COMPLETE_COMMIT) & (before.state == PREPARE_COMMIT) & goes_on
    no_overflow = (before.timestamp_ms >= 0) & (after.timestamp_ms >= 0)  # else the difference may not fit an int64
    quickly = no_overflow & (after.timestamp_ms - before.timestamp_ms < SLOW_MARKERS_MS)
    return begins | grows | commits | (completes & quickly)

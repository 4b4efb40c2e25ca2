"""Which record may follow which in the log of one transactional.id.

Source: `TransactionState.java` (VALID_PREVIOUS_STATES, with the edges of TV2 since 4.0: an abort may begin where
nothing was added). The log can show other sequences too: an append that failed for the coordinator may lie there all
the same (`TransactionStateManager.updateCacheCallback`). They are facts to report; the newest record is the truth.
"""

from __future__ import annotations

from typing import Any, Final

from service.domain.facts import NO_ID, LogRecord
from service.domain.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    EXPIRED,
    NAMES,
    NEVER_SEEN,
    ONGOING,
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
"""From here on the phase between Prepare and Complete is worth a row of its own."""


def oddity(before: LogRecord, after: LogRecord) -> str | None:
    """What is strange about `after` following `before`, in words; None if Kafka does that."""
    if NEVER_SEEN in (before.state, after.state) or UNKNOWN in (before.state, after.state):
        return None
    if is_repetition(before, after):
        return "written again: the coordinator repeats an append whose answer it missed"
    if before.state not in BEFORE[after.state]:
        return f"Kafka allows no {NAMES[after.state]} after {NAMES[before.state]}: a failed append, or records are gone"
    if before.state == after.state == ONGOING and not is_same_transaction(before, after):
        return "another transaction began before the end of the one before: records are gone"
    return None


def is_same_transaction(before: Any, after: Any) -> Any:
    """Records, or columns of them: same start, same producer id or its successor.

    Under TV2 the producer id may change on the CompleteX record; before 4.3 no tag says so (KAFKA-20310), but then the
    epoch was the last one.
    """
    named = (after.previous_producer_id == before.producer_id) & (before.producer_id != NO_ID)
    rotated = (named | (before.producer_epoch == LAST_EPOCH)) & (after.producer_epoch == 0)
    return (before.start_ms == after.start_ms) & ((before.producer_id == after.producer_id) | rotated)


def is_repetition(before: Any, after: Any) -> Any:
    """Records, or columns of them: the same step again. An Ongoing record that adds partitions is not meant."""
    return (
        (before.state == after.state)
        & (after.state != ONGOING)
        & (before.producer_id == after.producer_id)
        & (before.producer_epoch == after.producer_epoch)
        & (before.start_ms == after.start_ms)
        & ((after.state != EMPTY) | (before.last_update_ms == after.last_update_ms))
    )


def is_plain(before: Any, after: Any) -> Any:
    """Records, or columns of them: a step of an ordinary commit that calls for no row of its own."""
    same_producer = (before.producer_id == after.producer_id) & (before.start_ms == after.start_ms)
    bump = after.producer_epoch - before.producer_epoch
    begins = ((before.state == EMPTY) | (before.state == COMPLETE_COMMIT)) & (before.producer_id == after.producer_id)
    grows = (before.state == ONGOING) & same_producer
    commits = (after.state == PREPARE_COMMIT) & (before.state == ONGOING) & same_producer & ((bump == 0) | (bump == 1))
    completes = (after.state == COMPLETE_COMMIT) & (before.state == PREPARE_COMMIT) & same_producer & (bump == 0)
    quickly = after.timestamp_ms - before.timestamp_ms < SLOW_MARKERS_MS
    return ((after.state == ONGOING) & (begins | grows) & (bump == 0)) | commits | (completes & quickly)

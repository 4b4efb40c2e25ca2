"""The rules for the order of records in the log of one transactional.id.

Source: `TransactionState.java` (VALID_PREVIOUS_STATES, with the additions of TV2 since 4.0: an abort may begin although
no partition was added). The log can contain other sequences, too, because an append that the coordinator considers
failed may still be in the log (`TransactionStateManager.updateCacheCallback`). We report such sequences and trust the
newest record."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Final

from service.domain.transaction_log.facts import NO_ID, LogRecord, OneOrMany, Truth
from service.domain.transaction_log.states import (
    ADMIN_TIMEOUTS_MS,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    EXPIRABLE,
    EXPIRED,
    NAMES,
    NEVER_SEEN,
    ONGOING,
    OPEN,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    UNKNOWN,
)

BEFORE: Final[dict[int, frozenset[int]]] = {
    EMPTY: EXPIRABLE | {EXPIRED},
    ONGOING: EXPIRABLE | {ONGOING},
    PREPARE_COMMIT: frozenset({ONGOING}),
    PREPARE_ABORT: EXPIRABLE | {ONGOING},
    COMPLETE_COMMIT: frozenset({PREPARE_COMMIT}),
    COMPLETE_ABORT: frozenset({PREPARE_ABORT}),
    EXPIRED: EXPIRABLE,
}
"""Maps a state to the states that may come directly before it."""

LAST_EPOCH: Final = 32_767
"""The highest epoch, reserved for the coordinator's last PrepareX under a producer id."""

SLOW_MARKERS_MS: Final = 1_000
"""If at least this time (ms) lies between PrepareX and CompleteX, both records get rows of their own in the history."""


REPEATED: Final = (
    "written again: the coordinator missed the answer to its append, or the producer the answer to its request"
)
_ANOMALY_REASON: Final = "an append failed, or records are gone"


def anomaly(before: LogRecord, after: LogRecord) -> str | None:
    """Returns a text for people if `after` repeats `before`, or may not follow `before`. Returns None if `after` may
    follow, or if one of the two states is not known."""
    if NEVER_SEEN in (before.state, after.state) or UNKNOWN in (before.state, after.state):
        return None
    if is_repetition(before, after):
        return REPEATED
    if before.state not in BEFORE[after.state]:
        return f"Kafka allows no {NAMES[after.state]} after {NAMES[before.state]}: {_ANOMALY_REASON}"
    if before.state in OPEN and not is_same_transaction(before, after):
        return f"the previous record belongs to another transaction, whose end is missing: {_ANOMALY_REASON}"
    if before.state in EXPIRABLE and after.state in OPEN and not _may_begin(before, after):
        return f"the record that must come before this one is missing: {_ANOMALY_REASON}"
    return None


def _may_begin(before: LogRecord, after: LogRecord) -> bool:
    """Returns whether `after`, in an open state, may follow `before`, in an idle state. A new producer id begins with
    Empty or CompleteX, so `after` may not change the producer id. A PrepareAbort that follows an idle state has no
    partitions."""
    is_abort_of_something = after.state == PREPARE_ABORT and after.partition_count > 0
    return before.producer_id == after.producer_id and not is_abort_of_something


def is_same_transaction(before: OneOrMany[Truth], after: OneOrMany[Truth]) -> Truth:
    """Returns whether two records belong to one transaction: they have the same start, and the same producer id or its
    successor. Takes records, or columns of them.

    Under TV2 the producer id may change on the CompleteX record. Before 4.3 only LAST_EPOCH in `before` shows the
    change, because the record has no tag for it (KAFKA-20310).
    """
    untagged = (after.previous_producer_id == NO_ID) & (before.producer_epoch == LAST_EPOCH)
    named = (after.previous_producer_id == before.producer_id) | untagged
    rotated = named & (before.producer_id != NO_ID) & (after.producer_epoch == 0)
    return (before.start_ms == after.start_ms) & ((before.producer_id == after.producer_id) | rotated)


def is_repetition(before: OneOrMany[Truth], after: OneOrMany[Truth]) -> Truth:
    """Returns whether `after` repeats the step of `before`. Takes records, or columns of them. An Ongoing record is
    never a repetition, because it adds partitions.

    Update times are not compared, because a repeated step has another update time. A producer repeats its
    InitProducerId if the append failed, or if the producer missed the answer (KIP-360: the repeated request names the
    previous epoch). The record of the repeated request has the epoch and the timeout of the first record. A
    PrepareAbort with partitions does not repeat a PrepareAbort without partitions, which does not count as an abort."""
    aborts_as_much: Truth = (before.partition_count == 0) == (after.partition_count == 0)
    return (
        (before.state == after.state)
        & (after.state != ONGOING)
        & (before.producer_id == after.producer_id)
        & (before.producer_epoch == after.producer_epoch)
        & (before.start_ms == after.start_ms)
        & ((after.state != EMPTY) | (before.timeout_ms == after.timeout_ms))
        & ((after.state != PREPARE_ABORT) | aborts_as_much)
    )


def is_prepared_again(before: OneOrMany[Truth], after: OneOrMany[Truth]) -> Truth:
    """Returns whether `before` and `after` are two PrepareX of one transaction with the same decision. Takes records,
    or columns of them.

    Unlike in a repetition, the epochs may differ: for example, a client's abort seems to fail, and the coordinator
    aborts again at the timeout.
    """
    is_prepared = (after.state == PREPARE_COMMIT) | (after.state == PREPARE_ABORT)
    return (before.state == after.state) & is_prepared & is_same_transaction(before, after)


def is_plain(before: OneOrMany[Truth], after: OneOrMany[Truth]) -> Truth:
    """Returns whether the pair is an ordinary step of a commit, which gets no history row without `full_history`. Takes
    records, or columns of them. The first transaction after an Empty with an administrator's timeout is not plain,
    because this transaction shows that no administrator wrote the Empty (`causes.refine`)."""
    same_producer = before.producer_id == after.producer_id
    goes_on = same_producer & (before.start_ms == after.start_ms)
    of_application = reduce(and_, (before.timeout_ms != timeout_ms for timeout_ms in ADMIN_TIMEOUTS_MS))
    is_idle = ((before.state == EMPTY) & of_application) | (before.state == COMPLETE_COMMIT)
    begins = (after.state == ONGOING) & is_idle & same_producer
    grows = (after.state == ONGOING) & (before.state == ONGOING) & goes_on
    commits = (after.state == PREPARE_COMMIT) & (before.state == ONGOING) & goes_on
    completes = (after.state == COMPLETE_COMMIT) & (before.state == PREPARE_COMMIT) & goes_on
    no_overflow = (before.timestamp_ms >= 0) & (after.timestamp_ms >= 0)  # other differences may not fit an int64
    quickly = no_overflow & (after.timestamp_ms - before.timestamp_ms < SLOW_MARKERS_MS)
    return begins | grows | commits | (completes & quickly)

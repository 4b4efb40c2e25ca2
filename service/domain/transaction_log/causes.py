"""Derives the cause of a transaction's end, and how certain that cause is, from two neighbouring records of one id.

Source: `TransactionCoordinator` (endTransaction, InitProducerId, timeout scan), `TransactionMetadata.prepare*`,
KIP-360, KIP-890.

No abort of a transaction with partitions has a certain cause:

- Under the old protocol an EndTxn names an epoch and not a transaction: a late duplicate of an EndTxn may have ended
  the next transaction (KAFKA-17754).
- Under TV2 a client's abort, a timeout and a fence all raise the epoch by one.
- The recovery of a two-phase producer (KIP-939, InitProducerId with keepPreparedTxn) raises the epoch before it ends
  the kept transaction, under any version. So in a recovery, a raised epoch is no sign of a fence.

The next records of the id often decide the cause (`refine`), because they show which producer was let in."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from service.domain.transaction_log.facts import NO_ID, LogRecord
from service.domain.transaction_log.states import (
    ADMIN_TIMEOUTS_MS,
    COMPLETE,
    COMPLETE_ABORT,
    EMPTY,
    EXPIRABLE,
    EXPIRED,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TWO_PHASE_TIMEOUT_MS,
)
from service.domain.transaction_log.transitions import is_same_transaction


class CauseCode(StrEnum):
    """The reasons why a record of an id is written, in the words of the API (docs/causes.md)."""

    COMMIT = "commit"
    CLIENT_ABORT = "client_abort"
    TIMEOUT = "timeout"
    FENCED = "fenced"
    ADMIN = "admin"
    EMPTY_ABORT = "empty_abort"
    UNATTRIBUTED = "unattributed"
    EXPIRY = "expired"
    INITIALIZED = "initialized"
    PID_ROTATED = "pid_rotated"


class Confidence(StrEnum):
    """The degrees of certainty of a conclusion, the most certain first."""

    CERTAIN = "certain"
    LIKELY = "likely"
    AMBIGUOUS = "ambiguous"


FOLLOWS_WITHIN_MS: Final = 3_000
"""Maximum time (ms) from a fence's CompleteAbort to the Empty that follows: the client retries its InitProducerId at
least once a second until the abort is complete. If no Empty follows, the InitProducerId was refused, or the client gave
up."""

RETURNS_WITHIN_MS: Final = 10_000
"""Time (ms) after the abort within which an application is back if its own framework fenced it. Kafka Connect calls
`fenceProducers` for the ids of its tasks, then starts the tasks (KIP-618)."""

_LAST_CLIENT_EPOCH: Final = 32_766


class Cause(NamedTuple):
    """The cause of a record, such as the end of a transaction. `code` is part of the API. `confidence`: `certain` means
    that the log allows no other explanation, whichever earlier records compaction has removed. While `is_open`, the
    id's next record may still change the cause."""

    code: CauseCode
    confidence: Confidence
    is_open: bool = False


def cause_of(before: LogRecord, after: LogRecord) -> Cause | None:
    """Returns the cause of `after`, if this record ends a transaction, initializes or expires the id, or changes its
    producer id; None for any other record."""
    if after.state == PREPARE_COMMIT:
        is_unchanged = is_same_transaction(before, after) and before.producer_epoch == after.producer_epoch
        return Cause(CauseCode.COMMIT, Confidence.LIKELY) if is_unchanged else cause_of_commit(after)
    if after.state == PREPARE_ABORT:
        return _empty_abort(before, after) if after.partition_count == 0 else _abort(before, after)
    if after.state == EMPTY:
        # only InitProducerId writes Empty
        return _rotated(before, after) or Cause(CauseCode.INITIALIZED, Confidence.CERTAIN)
    if after.state == EXPIRED:
        return Cause(CauseCode.EXPIRY, Confidence.CERTAIN)
    if after.state in COMPLETE:
        return _rotated(before, after)
    return None


def cause_of_commit(prepare: LogRecord) -> Cause:
    """Returns the cause of a PrepareCommit, from that record alone."""
    return Cause(CauseCode.COMMIT, confidence_of_commit(prepare.client_transaction_version))


def confidence_of_commit(client_transaction_version: int) -> Confidence:
    """Returns the confidence that the client meant to commit this transaction, by the transaction version in its
    PrepareCommit.

    Only a client commits: the coordinator by itself only ever aborts. Under TV2 each EndTxn raises the epoch, so that a
    duplicate of an earlier EndTxn does not fit. Under the old protocol the EndTxn may be a late duplicate of an earlier
    EndTxn. The outcome is certain in both cases."""
    return Confidence.CERTAIN if client_transaction_version >= 2 else Confidence.LIKELY


def _empty_abort(before: LogRecord, after: LogRecord) -> Cause:
    begins_and_ends = before.state in EXPIRABLE or after.start_ms == after.last_update_ms
    # otherwise the transaction was Ongoing without a partition
    return Cause(CauseCode.EMPTY_ABORT, Confidence.CERTAIN if begins_and_ends else Confidence.LIKELY)


def _abort(before: LogRecord, after: LogRecord) -> Cause:
    if before.state != ONGOING or before.producer_id != after.producer_id or before.start_ms != after.start_ms:
        # the record before is missing: compacted, or cut off before it was read
        return Cause(CauseCode.UNATTRIBUTED, Confidence.AMBIGUOUS)
    bump = after.producer_epoch - before.producer_epoch
    by_tv2_client = before.client_transaction_version >= 2
    by_tv2_coordinator = after.client_transaction_version >= 2
    if bump == 0 and not by_tv2_coordinator:
        # an old EndTxn; the coordinator's own aborts raise the epoch
        return Cause(CauseCode.CLIENT_ABORT, Confidence.LIKELY)
    if after.timeout_ms == TWO_PHASE_TIMEOUT_MS and bump > 0:
        # a recovery that keeps the transaction raises the epoch, too
        return Cause(CauseCode.CLIENT_ABORT, Confidence.AMBIGUOUS, is_open=True)
    if bump != 1 and not (bump == 2 and by_tv2_coordinator):
        return Cause(CauseCode.UNATTRIBUTED, Confidence.AMBIGUOUS)
    if _ran_out(after):
        # a client's abort or a fence in the seconds before the scan looks the same
        return Cause(CauseCode.TIMEOUT, Confidence.LIKELY)
    if by_tv2_client and bump == 1:
        return Cause(CauseCode.CLIENT_ABORT, Confidence.AMBIGUOUS, is_open=True)
    # an abort for InitProducerId; an Empty after it shows whether a producer was let in
    return Cause(CauseCode.FENCED, Confidence.AMBIGUOUS, is_open=True)


def _ran_out(abort: LogRecord) -> bool:
    """Returns whether the transaction was open for longer than its timeout, by the coordinator's own clock. If so, the
    coordinator's scan would have aborted it (`TransactionStateManager.timedOutTransactions`)."""
    if abort.timeout_ms == TWO_PHASE_TIMEOUT_MS or abort.start_ms <= 0:
        return False
    return abort.last_update_ms - abort.start_ms > abort.timeout_ms


def _rotated(before: LogRecord, after: LogRecord) -> Cause | None:
    """Returns PID_ROTATED if the records show that the id continues under another producer id, else None. Since 4.3 the
    record itself contains the previous producer id (KAFKA-20310)."""
    if before.producer_id == after.producer_id:
        return None
    if after.previous_producer_id not in (NO_ID, after.producer_id):
        return Cause(CauseCode.PID_ROTATED, Confidence.CERTAIN)
    if after.state == EMPTY:  # or the id expired and began anew, and the tombstone was compacted
        exhausted = before.producer_epoch >= _LAST_CLIENT_EPOCH and after.producer_epoch == 0
        untagged = after.previous_producer_id == NO_ID
        return Cause(CauseCode.PID_ROTATED, Confidence.LIKELY) if exhausted and untagged else None
    return Cause(CauseCode.PID_ROTATED, Confidence.LIKELY) if is_same_transaction(before, after) else None


def refine(cause: Cause, completed_ms: int, before: LogRecord, after: LogRecord) -> Cause:
    """Returns the cause of an abort, in the light of two neighbouring records, the first of which is the abort's
    CompleteAbort or a later record. `completed_ms`: the time of the CompleteAbort.

    `code` changes only while the cause is open, and only soon after the abort. CLIENT_ABORT becomes LIKELY if the
    record after the CompleteAbort, however late it comes, shows that the client continues. FENCED is never CERTAIN,
    because an administrator's fence may carry any timeout, even the id's own."""
    after_ms = after.timestamp_ms - completed_ms
    if cause.is_open and before.state == COMPLETE_ABORT and after_ms <= FOLLOWS_WITHIN_MS:
        if _is_next_init(before, after):
            return _let_in(cause, before, after)
        if _asks_for_the_same(before, after):
            return Cause(CauseCode.CLIENT_ABORT, Confidence.LIKELY)
    is_open_admin = cause.is_open and cause.code == CauseCode.ADMIN
    if is_open_admin and after_ms <= RETURNS_WITHIN_MS and _is_application(before, after):
        return Cause(CauseCode.FENCED, Confidence.AMBIGUOUS)
    goes_on = _goes_on(before, after) or _asks_for_the_same(before, after)
    if cause[:2] == (CauseCode.CLIENT_ABORT, Confidence.AMBIGUOUS) and before.state == COMPLETE_ABORT and goes_on:
        return Cause(CauseCode.CLIENT_ABORT, Confidence.LIKELY)
    return settled(cause)


def settled(cause: Cause) -> Cause:
    """Returns the final cause of an abort, for a cause that no later record can change. ADMIN becomes LIKELY; any other
    cause keeps its confidence."""
    return Cause(CauseCode.ADMIN, Confidence.LIKELY) if cause.code == CauseCode.ADMIN else cause._replace(is_open=False)


def _let_in(cause: Cause, complete: LogRecord, empty: LogRecord) -> Cause:
    """Returns the cause of an abort right after which an InitProducerId was granted. `empty`: the record of the
    InitProducerId."""
    if empty.timeout_ms in ADMIN_TIMEOUTS_MS and empty.timeout_ms != complete.timeout_ms:
        # or the application's own framework, which starts the id at once
        return Cause(CauseCode.ADMIN, Confidence.AMBIGUOUS, is_open=True)
    # under TV2 a client that aborts and starts anew at once leaves the same records
    return Cause(CauseCode.FENCED, Confidence.LIKELY if cause.code == CauseCode.FENCED else Confidence.AMBIGUOUS)


def _is_next_init(before: LogRecord, after: LogRecord) -> bool:
    """Returns whether `after` is the record of the next InitProducerId that was granted, with a new epoch."""
    bumped = after.producer_id == before.producer_id and after.producer_epoch == before.producer_epoch + 1
    rotated = after.producer_id != before.producer_id and after.producer_epoch == 0
    return after.state == EMPTY and (bumped or rotated)


def _asks_for_the_same(complete: LogRecord, after: LogRecord) -> bool:
    """Returns whether `after` is the record of an InitProducerId from the producer whose transaction was aborted. Under
    TV2 such a producer names its own producer id and epoch (KIP-360), and gets the epoch that the abort left."""
    same = (after.producer_id, after.producer_epoch) == (complete.producer_id, complete.producer_epoch)
    return after.state == EMPTY and same


def _is_application(admin: LogRecord, after: LogRecord) -> bool:
    """Returns whether `after` shows that the application is back after `admin`, an Empty with an administrator's
    timeout. One sign is an Empty with the application's own timeout. The other is a transaction right after `admin`:
    the admin API never begins one."""
    is_back = _is_next_init(admin, after) and after.timeout_ms not in ADMIN_TIMEOUTS_MS
    return admin.state == EMPTY and (is_back or _goes_on(admin, after))


def _goes_on(before: LogRecord, after: LogRecord) -> bool:
    """Returns whether `after` comes from the client that has the epoch of `before`, which is an Empty or a
    CompleteAbort. Any other client would have raised the epoch by an InitProducerId first."""
    bump = after.producer_epoch - before.producer_epoch
    begins = after.state == ONGOING and bump == 0
    aborts_nothing = after.state == PREPARE_ABORT and after.partition_count == 0 and bump == 1
    is_same_producer = after.producer_id == before.producer_id
    return is_same_producer and (begins or aborts_nothing)

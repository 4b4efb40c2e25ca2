"""Derives why a transaction ended, and how certain that is, from two neighbouring records of one id.

Source: `TransactionCoordinator` (endTransaction, InitProducerId, timeout scan), `TransactionMetadata.prepare*`,
KIP-890.
Under TV2 a client's abort, a timeout and a fence all raise the epoch by one, so no abort cause is certain there. The
next record of the id often decides (`refine`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from service.domain.transaction_log.facts import NO_ID, LogRecord
from service.domain.transaction_log.states import (
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

COMMIT: Final = "commit"
CLIENT_ABORT: Final = "client_abort"
TIMEOUT: Final = "timeout"
FENCED: Final = "fenced"
ADMIN: Final = "admin"
EMPTY_ABORT: Final = "empty_abort"
UNATTRIBUTED: Final = "unattributed"
EXPIRY: Final = "expired"
INITIALIZED: Final = "initialized"
PID_ROTATED: Final = "pid_rotated"

CERTAIN: Final = "certain"
LIKELY: Final = "likely"
AMBIGUOUS: Final = "ambiguous"

ADMIN_TIMEOUTS_MS: Final = frozenset({1, 30_000})
"""The timeouts that `fenceProducers` and `forceTerminateTransaction` leave on the id (KAFKA-16047)."""

FOLLOWS_WITHIN_MS: Final = 3_000
"""Time within which Empty follows a fence: its InitProducerId is retried at least once a second until the abort is
complete."""

_LAST_CLIENT_EPOCH: Final = 32_766


class Cause(NamedTuple):
    """The cause of the end of a transaction: `code` is part of the API, `confidence` is certain, likely or ambiguous.

    `certain` means that the log allows no other explanation, whichever records compaction removed before. While
    `is_open`, the id's next record may still change the cause.
    """

    code: str
    confidence: str
    is_open: bool = False


def cause_of(before: LogRecord, after: LogRecord) -> Cause | None:
    """Returns why `after` was written if it ends a transaction, initializes or expires the id, or changes its producer
    id; None for the other steps."""
    if after.state == PREPARE_COMMIT:
        return Cause(COMMIT, CERTAIN)  # the coordinator itself only ever aborts
    if after.state == PREPARE_ABORT:
        return _empty_abort(before, after) if after.partition_count == 0 else _abort(before, after)
    if after.state == EMPTY:
        return _rotated(before, after) or Cause(INITIALIZED, CERTAIN)  # only InitProducerId writes Empty
    if after.state == EXPIRED:
        return Cause(EXPIRY, CERTAIN)
    if after.state in COMPLETE:
        return _rotated(before, after)
    return None


def _empty_abort(before: LogRecord, after: LogRecord) -> Cause:
    begins_and_ends = before.state in EXPIRABLE or after.start_ms == after.last_update_ms
    return Cause(EMPTY_ABORT, CERTAIN if begins_and_ends else LIKELY)  # else it was Ongoing without a partition


def _abort(before: LogRecord, after: LogRecord) -> Cause:
    if before.state != ONGOING or before.producer_id != after.producer_id or before.start_ms != after.start_ms:
        return Cause(UNATTRIBUTED, AMBIGUOUS)  # the record before is missing: compacted, or cut off before it was read
    bump = after.producer_epoch - before.producer_epoch
    by_tv2_client = before.client_transaction_version >= 2
    by_tv2_coordinator = after.client_transaction_version >= 2
    if bump == 0 and not by_tv2_client and not by_tv2_coordinator:
        return Cause(CLIENT_ABORT, CERTAIN)
    if bump != 1 and not (bump == 2 and by_tv2_coordinator):
        return Cause(UNATTRIBUTED, AMBIGUOUS)
    if _ran_out(after):
        return Cause(TIMEOUT, LIKELY)  # a client's abort or a fence in the seconds before the scan looks the same
    if by_tv2_client and bump == 1:
        return Cause(CLIENT_ABORT, AMBIGUOUS, is_open=True)
    return Cause(FENCED, LIKELY, is_open=True)


def _ran_out(abort: LogRecord) -> bool:
    """Returns whether the coordinator's scan would have timed the transaction out: strictly longer than its timeout, by
    the coordinator's own clock (TransactionStateManager.timedOutTransactions)."""
    return abort.timeout_ms != TWO_PHASE_TIMEOUT_MS and abort.last_update_ms - abort.start_ms > abort.timeout_ms


def _rotated(before: LogRecord, after: LogRecord) -> Cause | None:
    """Returns the cause if the id continues under another producer id, else None. Since 4.3 the record itself contains
    the previous one (KAFKA-20310)."""
    if before.producer_id == after.producer_id:
        return None
    if after.previous_producer_id not in (NO_ID, after.producer_id):
        return Cause(PID_ROTATED, CERTAIN)
    if after.state == EMPTY:  # or the id expired and began anew, and the tombstone was compacted
        exhausted = before.producer_epoch >= _LAST_CLIENT_EPOCH and after.producer_epoch == 0
        untagged = after.previous_producer_id == NO_ID
        return Cause(PID_ROTATED, LIKELY) if exhausted and untagged else None
    return Cause(PID_ROTATED, LIKELY) if is_same_transaction(before, after) else None


def refine(cause: Cause, complete: LogRecord, after: LogRecord) -> Cause:
    """Returns the cause of an abort in the light of the id's next record, `after`; `complete` is the CompleteAbort
    before it.

    The code changes only while the cause is open, and only within FOLLOWS_WITHIN_MS. A client that continues after its
    own abort makes that cause likely at any later time. A fence is never certain: an administrator's fence may carry
    any timeout, also the id's own.
    """
    if complete.state == COMPLETE_ABORT:
        if cause.is_open and _is_next_init(complete, after):
            return _fence_or_admin(cause, complete, after)
        if cause[:2] == (CLIENT_ABORT, AMBIGUOUS) and _goes_on(complete, after):
            return Cause(CLIENT_ABORT, LIKELY)
    return cause._replace(is_open=False)


def _fence_or_admin(cause: Cause, complete: LogRecord, empty: LogRecord) -> Cause:
    if empty.timeout_ms in ADMIN_TIMEOUTS_MS and empty.timeout_ms != complete.timeout_ms:
        return Cause(ADMIN, LIKELY)
    # under TV2 a client that aborts and starts anew at once leaves the same records
    return Cause(FENCED, LIKELY if cause.code == FENCED else AMBIGUOUS)


def _is_next_init(complete: LogRecord, after: LogRecord) -> bool:
    """Returns whether `after` is the InitProducerId right after the abort, soon enough to have caused it."""
    bumped = after.producer_id == complete.producer_id and after.producer_epoch == complete.producer_epoch + 1
    rotated = after.producer_id != complete.producer_id and after.producer_epoch == 0
    soon = after.timestamp_ms - complete.timestamp_ms <= FOLLOWS_WITHIN_MS
    return after.state == EMPTY and soon and (bumped or rotated)


def _goes_on(complete: LogRecord, after: LogRecord) -> bool:
    """Returns whether the aborted client continues with the epoch that the abort left. After a fence an InitProducerId
    would have raised the epoch first."""
    bump = after.producer_epoch - complete.producer_epoch
    begins = after.state == ONGOING and bump == 0
    aborts_nothing = after.state == PREPARE_ABORT and after.partition_count == 0 and bump == 1
    return after.producer_id == complete.producer_id and (begins or aborts_nothing)

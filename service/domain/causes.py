"""Why a transaction ended, and how sure that is: rules over two neighbouring records of one id.

Source: `TransactionCoordinator` (endTransaction, InitProducerId, timeout scan), `TransactionMetadata.prepare*`,
KIP-890.
Under TV2 client, timeout and fence all raise the epoch by one, so nothing there is certain; what the id does next
often decides (`refined`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from service.domain.facts import NO_ID, LogRecord
from service.domain.limits import TWO_PHASE_TIMEOUT_MS
from service.domain.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    EXPIRED,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from service.domain.transitions import is_same_transaction

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
"""What `fenceProducers` and `forceTerminateTransaction` leave behind as the id's timeout (KAFKA-16047)."""

FOLLOWS_WITHIN_MS: Final = 10_000
"""A fencing InitProducerId is repeated until the abort is complete: its Empty record follows soon."""

_LAST_CLIENT_EPOCH: Final = 32_766


class Cause(NamedTuple):
    """A word of the contract, and certain, likely or ambiguous; `open` while the id's next record may change it."""

    word: str
    confidence: str
    open: bool = False


def cause_of(before: LogRecord, after: LogRecord) -> Cause | None:
    """Why `after` was written, where it ends, begins or renames something; None for the other steps."""
    if after.state == PREPARE_COMMIT:
        return Cause(COMMIT, CERTAIN)
    if after.state == PREPARE_ABORT:
        return _abort(before, after)
    if after.state == EMPTY:
        return _initialized(before, after)
    if after.state == EXPIRED:
        return Cause(EXPIRY, CERTAIN)
    is_rotated = before.producer_id != after.producer_id and is_same_transaction(before, after)
    if after.state in (COMPLETE_COMMIT, COMPLETE_ABORT) and is_rotated:
        return Cause(PID_ROTATED, CERTAIN)
    return None


def _abort(before: LogRecord, after: LogRecord) -> Cause:
    if after.partition_count == 0:
        return Cause(EMPTY_ABORT, CERTAIN)
    if before.state != ONGOING or before.producer_id != after.producer_id or before.start_ms != after.start_ms:
        return Cause(UNATTRIBUTED, AMBIGUOUS)  # what came before is not there: compacted, or read later than cut
    bump = after.producer_epoch - before.producer_epoch
    if bump == 0:
        return Cause(CLIENT_ABORT, CERTAIN)
    by_tv2_client = after.client_transaction_version >= 2 and before.client_transaction_version >= 2
    if bump not in (1, 2) or (bump == 2 and after.client_transaction_version < 2):
        return Cause(UNATTRIBUTED, AMBIGUOUS)
    if _ran_out(after):
        return Cause(TIMEOUT, LIKELY)  # a client's abort or a fence in the seconds before the scan looks the same
    if by_tv2_client and bump == 1:
        return Cause(CLIENT_ABORT, AMBIGUOUS, open=True)
    return Cause(FENCED, LIKELY, open=True)


def _ran_out(abort: LogRecord) -> bool:
    """As the coordinator's scan decides, strictly, on its own clock (TransactionStateManager.timedOutTransactions)."""
    return abort.timeout_ms != TWO_PHASE_TIMEOUT_MS and abort.last_update_ms - abort.start_ms > abort.timeout_ms


def _initialized(before: LogRecord, after: LogRecord) -> Cause:
    if before.producer_id in (after.producer_id, NO_ID):
        return Cause(INITIALIZED, CERTAIN)
    if after.previous_producer_id == before.producer_id:
        return Cause(PID_ROTATED, CERTAIN)
    if before.producer_epoch >= _LAST_CLIENT_EPOCH and after.producer_epoch == 0:
        return Cause(PID_ROTATED, LIKELY)
    return Cause(INITIALIZED, CERTAIN)


def refined(cause: Cause, complete: LogRecord, after: LogRecord) -> Cause:
    """What an open cause becomes when the id's next record arrives; `complete`: the CompleteAbort before it."""
    settled = cause._replace(open=False)
    if after.state == EMPTY and after.timestamp_ms - complete.timestamp_ms <= FOLLOWS_WITHIN_MS:
        return _fence_or_admin(cause, complete, after)
    goes_on = after.state == ONGOING or (after.state == PREPARE_ABORT and after.partition_count == 0)
    same_life = after.producer_id == complete.producer_id and after.start_ms != complete.start_ms
    if cause.word == CLIENT_ABORT and goes_on and same_life:
        return Cause(CLIENT_ABORT, LIKELY)  # the aborted client lives on
    return settled


def _fence_or_admin(cause: Cause, complete: LogRecord, empty: LogRecord) -> Cause:
    if empty.timeout_ms in ADMIN_TIMEOUTS_MS and empty.timeout_ms != complete.timeout_ms:
        return Cause(ADMIN, LIKELY)
    if cause.word == CLIENT_ABORT:
        return Cause(FENCED, AMBIGUOUS)  # or aborted by a client that started anew at once
    is_plain_fence = empty.timeout_ms == complete.timeout_ms and empty.timeout_ms not in ADMIN_TIMEOUTS_MS
    return Cause(FENCED, CERTAIN if is_plain_fence else LIKELY)

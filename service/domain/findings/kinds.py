"""The kinds of findings, and the values of their fields."""

from __future__ import annotations

from typing import Final

HANGING: Final = "hanging_transaction"
ADOPTED: Final = "adopted_records"
UNREPLICATED: Final = "unreplicated_marker"
OVERDUE: Final = "overdue_transaction"
STUCK_COMPLETION: Final = "stuck_completion"
LONG_RUNNING: Final = "long_running_transaction"
BLOCKED_GROUP: Final = "blocked_group"
TIMED_OUT: Final = "timed_out_transaction"
CORRELATED_TIMEOUTS: Final = "correlated_timeouts"
FENCING_CONFLICT: Final = "fencing_conflict"
CHURN: Final = "transactional_id_churn"
EXPIRING: Final = "expiring_transactional_id"
EXPIRED: Final = "expired_transactional_id"
EPOCH_EXHAUSTION: Final = "epoch_exhaustion"
COORDINATOR_MISMATCH: Final = "coordinator_mismatch"
LOG_EXPANDED: Final = "transaction_log_expanded"
UNDECODABLE: Final = "undecodable_records"
DATA_GAP: Final = "data_gap"
COVERAGE_GAP: Final = "coverage_gap"
LOST_RECORDS: Final = "lost_records"
TORN: Final = "torn_transaction"

UNTIL_ACKNOWLEDGED: Final = frozenset({LOST_RECORDS, TORN})
"""Events that no quiet time ends: such a finding stays until somebody acknowledges it."""

EVENTS: Final = frozenset(
    {TIMED_OUT, CORRELATED_TIMEOUTS, FENCING_CONFLICT, CHURN, EXPIRED, DATA_GAP, *UNTIL_ACKNOWLEDGED}
)
"""Kinds that report something that happened; such a finding ends when nothing more of it has happened for a while, or
when it is acknowledged. The other kinds are conditions."""

WITH_CANDIDATES: Final = frozenset({HANGING, COORDINATOR_MISMATCH})
"""Kinds that need a second observation before they are confirmed."""

KINDS: Final = (
    HANGING,
    ADOPTED,
    UNREPLICATED,
    OVERDUE,
    STUCK_COMPLETION,
    LONG_RUNNING,
    BLOCKED_GROUP,
    TIMED_OUT,
    CORRELATED_TIMEOUTS,
    FENCING_CONFLICT,
    CHURN,
    EXPIRING,
    EXPIRED,
    EPOCH_EXHAUSTION,
    COORDINATOR_MISMATCH,
    LOG_EXPANDED,
    UNDECODABLE,
    DATA_GAP,
    COVERAGE_GAP,
    LOST_RECORDS,
    TORN,
)

CRITICAL: Final = "critical"
WARNING: Final = "warning"
INFO: Final = "info"
SEVERITIES: Final = (CRITICAL, WARNING, INFO)

CANDIDATE: Final = "candidate"
CONFIRMED: Final = "confirmed"
RESOLVED: Final = "resolved"
STATUSES: Final = (CANDIDATE, CONFIRMED, RESOLVED)

CERTAIN: Final = "certain"
LIKELY: Final = "likely"

HEALED: Final = "healed"
NOT_HANGING: Final = "not_hanging"
COORDINATOR_MARKER: Final = "coordinator_marker"
OUR_MARKER: Final = "our_marker"
FOREIGN_COMMIT: Final = "foreign_commit"
FOREIGN_ABORT: Final = "foreign_abort"
ADOPTION: Final = "adopted"
RETENTION: Final = "retention"
TRUNCATED: Final = "truncated"
TOPIC_DELETED: Final = "topic_deleted"
ACKNOWLEDGED: Final = "acknowledged"
RESOLUTIONS: Final = (
    COORDINATOR_MARKER,
    OUR_MARKER,
    FOREIGN_COMMIT,
    FOREIGN_ABORT,
    ADOPTION,
    RETENTION,
    TRUNCATED,
    TOPIC_DELETED,
    HEALED,
    NOT_HANGING,
    ACKNOWLEDGED,
)
"""Every way in which a finding can end."""

CRITICAL_AFTER_MS: Final = 60_000
"""Time for which a finding about a late transaction is a warning; then it is critical."""


def statuses_of(kind: str) -> tuple[str, ...]:
    """Returns the statuses that a finding of that kind can have."""
    return STATUSES if kind in WITH_CANDIDATES else (CONFIRMED, RESOLVED)

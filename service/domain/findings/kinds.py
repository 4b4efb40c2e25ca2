"""The kinds of findings, and the values of their severity, status and resolution."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """The kind of a finding."""

    HANGING = "hanging_transaction"
    ADOPTED = "adopted_records"
    UNREPLICATED = "unreplicated_marker"
    OVERDUE = "overdue_transaction"
    STUCK_COMPLETION = "stuck_completion"
    LONG_RUNNING = "long_running_transaction"
    BLOCKED_GROUP = "blocked_group"
    TIMED_OUT = "timed_out_transaction"
    CORRELATED_TIMEOUTS = "correlated_timeouts"
    FENCING_CONFLICT = "fencing_conflict"
    CHURN = "transactional_id_churn"
    EXPIRING = "expiring_transactional_id"
    EXPIRED = "expired_transactional_id"
    EPOCH_EXHAUSTION = "epoch_exhaustion"
    COORDINATOR_MISMATCH = "coordinator_mismatch"
    LOG_EXPANDED = "transaction_log_expanded"
    UNDECODABLE = "undecodable_records"
    DATA_GAP = "data_gap"
    COVERAGE_GAP = "coverage_gap"
    LOST_RECORDS = "lost_records"
    TORN = "torn_transaction"


class Severity(StrEnum):
    """The severity of a finding, the gravest first."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """The place in the order of gravity: 0 for the gravest."""
        return tuple(Severity).index(self)


class Status(StrEnum):
    """The state of a finding: seen once, confirmed, or over."""

    CANDIDATE = "candidate"
    CONFIRMED = "confirmed"
    RESOLVED = "resolved"


class Resolution(StrEnum):
    """The way in which a finding ended."""

    COORDINATOR_MARKER = "coordinator_marker"
    OUR_MARKER = "our_marker"
    FOREIGN_COMMIT = "foreign_commit"
    FOREIGN_ABORT = "foreign_abort"
    ADOPTION = "adopted"
    RETENTION = "retention"
    TRUNCATED = "truncated"
    TOPIC_DELETED = "topic_deleted"
    HEALED = "healed"
    NOT_HANGING = "not_hanging"
    ACKNOWLEDGED = "acknowledged"


CRITICAL_AFTER_MS: Final = 60_000
"""Time after which a finding about a late transaction is critical; before that, the finding is a warning."""

QUIET_MS: Final = 15 * 60_000
"""A finding about events ends after this time without another event, unless the finding stays until acknowledged."""

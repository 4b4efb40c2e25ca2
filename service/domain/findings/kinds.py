"""The kinds of findings that the coordinators' log shows, and the words of their fields."""

from __future__ import annotations

from typing import Final

OVERDUE: Final = "overdue_transaction"
STUCK_COMPLETION: Final = "stuck_completion"
LONG_RUNNING: Final = "long_running_transaction"
TIMED_OUT: Final = "timed_out_transaction"
CORRELATED_TIMEOUTS: Final = "correlated_timeouts"
FENCING_CONFLICT: Final = "fencing_conflict"
CHURN: Final = "transactional_id_churn"
EXPIRING: Final = "expiring_transactional_id"
EXPIRED: Final = "expired_transactional_id"
EPOCH_EXHAUSTION: Final = "epoch_exhaustion"
COORDINATOR_MISMATCH: Final = "coordinator_mismatch"
UNDECODABLE: Final = "undecodable_records"
DATA_GAP: Final = "data_gap"
COVERAGE_GAP: Final = "coverage_gap"

EVENTS: Final = frozenset({TIMED_OUT, CORRELATED_TIMEOUTS, FENCING_CONFLICT, CHURN, EXPIRED, DATA_GAP})
"""What happened; such a finding ends when it has not happened for a while. The other kinds are conditions."""

WITH_CANDIDATES: Final = frozenset({COORDINATOR_MISMATCH})
"""What takes a second look before it is believed."""

KINDS: Final = (
    OVERDUE,
    STUCK_COMPLETION,
    LONG_RUNNING,
    TIMED_OUT,
    CORRELATED_TIMEOUTS,
    FENCING_CONFLICT,
    CHURN,
    EXPIRING,
    EXPIRED,
    EPOCH_EXHAUSTION,
    COORDINATOR_MISMATCH,
    UNDECODABLE,
    DATA_GAP,
    COVERAGE_GAP,
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

CRITICAL_AFTER_MS: Final = 60_000
"""How long what nobody will end in time is only a warning."""


def statuses_of(kind: str) -> tuple[str, ...]:
    """The statuses a finding of that kind can have."""
    return STATUSES if kind in WITH_CANDIDATES else (CONFIRMED, RESOLVED)

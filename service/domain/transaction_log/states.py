"""The states of a transactional.id, with their numbers in Kafka's log, and the limits at which Kafka acts on them.

Source: `TransactionState.java`. Kafka writes only the numbers 0 to 5, never 6 (Dead) and 7 (PrepareEpochFence). Three
further numbers are ours; they lie outside Kafka's byte range, so that a column of integers can hold every state.
"""

from __future__ import annotations

from typing import Final

EMPTY: Final = 0
ONGOING: Final = 1
PREPARE_COMMIT: Final = 2
PREPARE_ABORT: Final = 3
COMPLETE_COMMIT: Final = 4
COMPLETE_ABORT: Final = 5

EXPIRED: Final = 200
"""A tombstone: the coordinator removed the id (transactional.id.expiration.ms)."""
UNKNOWN: Final = 201
"""The newest record of the id could not be decoded."""
NEVER_SEEN: Final = 202
"""Stands for the state before the oldest known record of an id."""

NAMES: Final[dict[int, str]] = {
    EMPTY: "Empty",
    ONGOING: "Ongoing",
    PREPARE_COMMIT: "PrepareCommit",
    PREPARE_ABORT: "PrepareAbort",
    COMPLETE_COMMIT: "CompleteCommit",
    COMPLETE_ABORT: "CompleteAbort",
    UNKNOWN: "Unknown",
    EXPIRED: "Expired",
}
"""Names of the states: Kafka's own (List/DescribeTransactions), then ours. NEVER_SEEN has no name."""

CODES: Final[dict[str, int]] = {name: code for code, name in NAMES.items()}

PERSISTED: Final = frozenset({EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT})
PREPARED: Final = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
"""States in which the end is decided, and the markers are being written. No partition is added meanwhile."""
COMPLETE: Final = frozenset({COMPLETE_COMMIT, COMPLETE_ABORT})
OPEN: Final = PREPARED | {ONGOING}
"""States in which participant partitions still wait for a marker."""
EXPIRABLE: Final = COMPLETE | {EMPTY}


TOPIC: Final = "__transaction_state"


EXPIRATION_CONFIG: Final = "transactional.id.expiration.ms"

CONFIG_DEFAULTS: Final[dict[str, str]] = {
    EXPIRATION_CONFIG: "604800000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "3600000",
    "transaction.max.timeout.ms": "900000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
}
"""Kafka's defaults (TransactionStateManagerConfig, TransactionLogConfig), used for configs that the brokers have not
reported."""

TWO_PHASE_TIMEOUT_MS: Final = 2_147_483_647
"""The timeout (ms) of a transaction that an external coordinator ends (KIP-939). Such a transaction never times out."""

ADMIN_TIMEOUTS_MS: Final = (1, 30_000)
"""The timeouts (ms) that `fenceProducers` and `forceTerminateTransaction` leave on the id (KAFKA-16047)."""

FIRST_TIME_MS: Final = 1_498_608_000_000
"""2017-06-28, the release date of Kafka 0.11.0, which was the first version with transactions."""

LAST_TIME_MS: Final = 253_402_300_799_999
"""The end of the year 9999. Only values from FIRST_TIME_MS to LAST_TIME_MS count as times. Values such as 0, a number
of seconds, or the time since the start of a broker are no times."""

AHEAD_MS: Final = 86_400_000
"""Maximum time (ms) by which a timestamp may be ahead of this machine's clock. A later timestamp cannot be that of
something that has happened."""

NO_TIME: Final = -1
"""The value that Kafka writes in place of a missing time."""


def is_time(ms: int | None) -> bool:
    """Returns whether the number can be the time of something in a transaction. Returns False for NO_TIME."""
    return ms is not None and FIRST_TIME_MS <= ms <= LAST_TIME_MS


def past_time(ms: int | None, now_ms: int) -> int | None:
    """Returns the number if it can be the time of something that has happened in a transaction. Returns None otherwise:
    brokers may report numbers that are no timestamps."""
    return ms if is_time(ms) and ms is not None and ms <= now_ms + AHEAD_MS else None

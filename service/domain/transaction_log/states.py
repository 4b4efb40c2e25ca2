"""The states of a transactional.id, with the numbers they have in Kafka's log.

Source: `TransactionState.java` (only ids 0-5 are ever written; 6 Dead and 7 PrepareEpochFence never are).
Three numbers of our own, outside Kafka's byte range, let a column of integers hold every state.
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
"""The state before the first record of an id that was read."""

NAMES: Final[dict[int, str]] = {
    EMPTY: "Empty",
    ONGOING: "Ongoing",
    PREPARE_COMMIT: "PrepareCommit",
    PREPARE_ABORT: "PrepareAbort",
    COMPLETE_COMMIT: "CompleteCommit",
    COMPLETE_ABORT: "CompleteAbort",
    EXPIRED: "Expired",
    UNKNOWN: "Unknown",
}
"""Names of the states: Kafka's own (List/DescribeTransactions), then ours."""

CODES: Final[dict[str, int]] = {name: code for code, name in NAMES.items()}

PERSISTED: Final = frozenset({EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT})
OPEN: Final = frozenset({ONGOING, PREPARE_COMMIT, PREPARE_ABORT})
"""States in which participant partitions still wait for a marker."""
EXPIRABLE: Final = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})


TOPIC: Final = "__transaction_state"
SOURCE: Final = "transaction_state"

"""Detects the end of a transaction in two neighbouring records of its id, and assigns durations to buckets.

The functions about transactions take two neighbouring records, or two columns of such records."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from service.domain.transaction_log.facts import OneOrMany, Truth
from service.domain.transaction_log.states import COMPLETE_ABORT, COMPLETE_COMMIT, PREPARE_ABORT


def completes_commit(before: OneOrMany[Truth], after: OneOrMany[Truth]) -> Truth:
    """Returns whether `after` completes a commit that `before` had not completed yet."""
    return (after.state == COMPLETE_COMMIT) & _first_time(before, after)


def completes_abort(before: OneOrMany[Truth], after: OneOrMany[Truth]) -> Truth:
    """Returns whether `after` completes the abort of a transaction that had partitions.

    Returns False for an abort with an empty partition list (KIP-890, TV2), because no transaction had begun. If
    `before` is not the PrepareAbort, the transaction counts as one with partitions.
    """
    of_something = (before.state != PREPARE_ABORT) | (before.partition_count != 0)
    return (after.state == COMPLETE_ABORT) & of_something & _first_time(before, after)


def _first_time(before: OneOrMany[Truth], after: OneOrMany[Truth]) -> Truth:
    """Returns whether `after` reaches its state for the first time, and does not repeat `before`. A coordinator repeats
    an append if it missed the acknowledgement; the repeated record does not end the transaction a second time."""
    return (
        (before.state != after.state) | (before.producer_id != after.producer_id) | (before.start_ms != after.start_ms)
    )


OPEN: Final = "open"
MARKER: Final = "marker"
DETECTION: Final = "detection"
"""Duration from the first observation of the stalled LSO until the hanging transaction was confirmed."""
BATCH: Final = "batch"
"""Duration from the start of reading a micro-batch until it was stored."""

BOUNDS_MS: Final[dict[str, tuple[int, ...]]] = {
    OPEN: (10, 50, 100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000),
    MARKER: (1, 5, 10, 25, 50, 100, 500, 1_000, 5_000, 30_000, 60_000),
    DETECTION: (250, 500, 1_000, 1_500, 2_000, 3_000, 5_000, 10_000, 30_000, 60_000, 300_000),
    BATCH: (50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000),
}
"""Upper bounds of the buckets, inclusive, by kind of duration. Longer durations fall into one more bucket."""


LONGEST_MS: Final = 2**40
"""The longest duration that is counted (35 years). If invalid times give a longer duration, LONGEST_MS is counted
instead, so that sums stay far from the limit of int64."""


def duration_between(first_ms: int, last_ms: int) -> int:
    """Returns the duration from the first time to the last: 0 if the last lies before the first, LONGEST_MS at most."""
    return min(max(last_ms - first_ms, 0), LONGEST_MS)


def bucket(kind: str, ms: int) -> int:
    """Returns the index of the bucket that a duration falls into."""
    return bisect_left(BOUNDS_MS[kind], ms)

"""The bounds of the histograms of durations (transactions, markers, detection, batches), in ms."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

OPEN: Final = "open"
MARKER: Final = "marker"
DETECTION: Final = "detection"
"""From the first look that saw the LSO standing there until a hanging transaction was confirmed."""
BATCH: Final = "batch"
"""From the moment a micro-batch was begun to be read until it was stored."""

BOUNDS_MS: Final[dict[str, tuple[int, ...]]] = {
    OPEN: (10, 50, 100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000),
    MARKER: (1, 5, 10, 25, 50, 100, 500, 1_000, 5_000, 30_000, 60_000),
    DETECTION: (250, 500, 1_000, 1_500, 2_000, 3_000, 5_000, 10_000, 30_000, 60_000, 300_000),
    BATCH: (50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000),
}
"""Upper bounds, inclusive; what is longer falls into one more bucket."""


LONGEST_MS: Final = 2**40
"""35 years. Between absurd times lies more; it is cut, so that sums of durations stay far from the limit of int64."""


def between(first_ms: int, last_ms: int) -> int:
    """From the first time to the last; 0 if the clocks disagree."""
    return min(max(last_ms - first_ms, 0), LONGEST_MS)


def bucket(kind: str, ms: int) -> int:
    """Index of the bucket a duration falls into."""
    return bisect_left(BOUNDS_MS[kind], ms)

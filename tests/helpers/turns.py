"""Divides the longest tests among runs: each run does a part of them, and the next runs do the others."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

TURN: Final = int(turn) if (turn := os.environ.get("TXNSCOPE_TEST_TURN")) else None
"""The number of the run, or None if the run executes all tests. `make test` uses the number of commits."""
IS_ODD: Final = TURN is not None and TURN % 2 == 1
PARTS: Final = 7
"""Number of runs in a row that together execute all tests: each of the longest tests runs in one of them. The versions
of Kafka alternate from run to run, so this number has to be odd: else a test would always meet the same version."""


def left_to_others(units: Iterable[str], turn: int | None) -> set[str]:
    """Returns the units (ids of tests or files) that the run with the number `turn` skips. The run executes one of
    every PARTS units in sorted order, and the next runs execute the others. So each run executes some of neighboring
    units, such as the cases of one test. If `turn` is None, the run skips nothing."""
    if turn is None:
        return set()
    ordered = sorted(set(units))
    return set(ordered) - set(ordered[turn % PARTS :: PARTS])

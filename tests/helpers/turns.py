"""Divides long test runs of CI: each run does a third of the longest tests, and the next two runs do the others."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

TURN: Final = int(os.environ["TXNSCOPE_TEST_TURN"]) if "TXNSCOPE_TEST_TURN" in os.environ else None
"""The number of the run, or None if the run executes all tests. CI uses the number of commits."""
IS_ODD: Final = TURN is not None and TURN % 2 == 1
PARTS: Final = 3
"""Number of runs in a row that together execute all tests: each of the longest tests runs in one of them. The versions
of Kafka alternate from run to run, so this number has to be odd: else a test would always meet the same version."""


def left_to_others(units: Iterable[str], turn: int | None) -> set[str]:
    """Returns the units (ids of tests or files) that a run with the number `turn` skips: of each PARTS units in sorted
    order all but one, or none if `turn` is None. The next runs execute the skipped units. So each run executes some of
    neighboring units, such as the cases of one test."""
    if turn is None:
        return set()
    ordered = sorted(set(units))
    return set(ordered) - set(ordered[turn % PARTS :: PARTS])

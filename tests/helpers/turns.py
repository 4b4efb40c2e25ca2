"""Divides long test runs of CI: each run does half of the longest tests, and the next run does the other half."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

TURN: Final = int(os.environ["TXNSCOPE_TEST_TURN"]) if "TXNSCOPE_TEST_TURN" in os.environ else None
"""The number of the run, or None if the run executes all tests. CI uses the number of commits."""
IS_ODD: Final = TURN is not None and TURN % 2 == 1


def left_to_others(units: Iterable[str], turn: int | None) -> set[str]:
    """Returns the units (ids of tests or files) that a run with the number `turn` skips: every second unit in sorted
    order, or none if `turn` is None. The runs before and after this run execute the skipped units. So each run executes
    half of neighboring units, such as the cases of one test."""
    return set() if turn is None else set(sorted(set(units))[(turn + 1) % 2 :: 2])

"""Runs of CI take turns: a run does half of what would take too long, and the next run does the other half."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

TURN: Final = int(os.environ["TXNSCOPE_TEST_TURN"]) if "TXNSCOPE_TEST_TURN" in os.environ else None
"""The number of the run, or None if the run does everything. CI sets it to the number of commits."""
IS_ODD: Final = TURN is not None and TURN % 2 == 1


def left_to_others(units: Iterable[str], turn: int | None) -> set[str]:
    """Returns those of the units, ids of tests or files, that a run with this number leaves to the runs before and
    after it: every other one, so that of neighbors, such as the cases of one test, each run does half."""
    return set() if turn is None else set(sorted(set(units))[(turn + 1) % 2 :: 2])

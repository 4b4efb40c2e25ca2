"""Clocks for tests of code that takes the time as an argument."""

from __future__ import annotations


def no_work() -> float:
    """Returns a processor time (s) that stands still: as if work took none, so that no schedule depends on how busy the
    machine is."""
    return 0.0

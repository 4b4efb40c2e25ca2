"""Bounds what a flood of requests can write into the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, NamedTuple

PERIOD_S: Final = 60.0
MOST_ALIKE: Final = 10
"""Lines of one kind, by their logger and their message without its values, that are written in a period."""
_MOST_KINDS: Final = 1_000


class _Told(NamedTuple):
    began_s: float
    lines: int


class LogLimit(logging.Filter):
    """Lets MOST_ALIKE lines of a kind pass in PERIOD_S. The first one afterwards says how many were left out."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock_s = clock_s
        self._told: dict[tuple[str, str], _Told] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now_s, kind = self._clock_s(), (record.name, str(record.msg))
        told = self._told.get(kind, _Told(now_s, 0))
        if now_s - told.began_s >= PERIOD_S:
            if told.lines > MOST_ALIKE:
                record.msg = f"{record.getMessage()} ({told.lines - MOST_ALIKE:,} more such lines were left out)"
                record.args = ()
            told = _Told(now_s, 0)
        if len(self._told) >= _MOST_KINDS and kind not in self._told:
            self._told.clear()
        self._told[kind] = _Told(told.began_s, told.lines + 1)
        return told.lines < MOST_ALIKE

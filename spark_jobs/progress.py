"""How far the first read of the log has come: a bar on a terminal, lines in a log."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from spark_jobs.source.position import LogPosition

LINE_EVERY_MS = 2_000


class FirstReadProgress:
    """Fed with positions after each batch; falls silent once history is read."""

    def __init__(self, positions: Iterable[LogPosition]) -> None:
        positions = list(positions)
        self._total = sum(max(p.counted_from - p.next_offset, 0) for p in positions)
        self._read = 0
        self._shown_at_ms: int | None = None

    def advance(self, offsets: int, now_ms: int) -> None:
        """`offsets` more of the history were read and stored."""
        if self._read >= self._total or not offsets:
            return
        self._read += offsets
        done = self._read >= self._total
        if done or self._shown_at_ms is None or now_ms - self._shown_at_ms >= LINE_EVERY_MS:
            self._shown_at_ms = now_ms
            self._show(done)

    def _show(self, done: bool) -> None:
        share = min(self._read / self._total, 1.0)
        line = f"first read of the transaction log: {self._read:,} of {self._total:,} offsets ({share:.0%})"
        if sys.stderr.isatty():
            bar = "█" * round(30 * share)
            sys.stderr.write(f"\r{bar:░<30} {line}" + ("\n" if done else ""))
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

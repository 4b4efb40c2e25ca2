"""How old what a page shows is, and what may still be said of it."""

from __future__ import annotations

from typing import Final, NamedTuple

LATE_MS: Final = 5_000
OLD_MS: Final = 30_000
UNKNOWN_MS: Final = 120_000

LIVE: Final = "live"
LATE: Final = "late"
OLD: Final = "old"
UNKNOWN: Final = "unknown"
READING: Final = "reading"
NEVER: Final = "never"


class Freshness(NamedTuple):
    """`as_of_ms`: of the source that answered longest ago, None before each has. `read`: how much of the coordinators'
    log is read, 0 to 1, while it is read for the first time; else None."""

    now_ms: int
    as_of_ms: int | None
    read: float | None = None

    @property
    def age_ms(self) -> int:
        """On the clock of whoever wrote the store; never negative."""
        return 0 if self.as_of_ms is None else max(self.now_ms - self.as_of_ms, 0)

    @property
    def word(self) -> str:
        """`reading`: nothing is judged yet. `late`: worth a mark; `old`: greyed, last known; `unknown`: no verdict."""
        age_ms = self.age_ms
        if self.as_of_ms is not None and age_ms >= UNKNOWN_MS:
            return UNKNOWN  # also a first read that came to a halt
        if self.read is not None:
            return READING
        if self.as_of_ms is None:
            return NEVER
        return OLD if age_ms >= OLD_MS else LATE if age_ms >= LATE_MS else LIVE

    @property
    def is_old(self) -> bool:
        """What is shown is the last known state."""
        return self.word in (OLD, UNKNOWN)

"""Minutes of ids, added up; rows of `id_minutes`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from service.domain.transaction_log import causes
from service.domain.transaction_log.facts import Minute
from service.domain.transaction_log.minutes import MINUTE_MS, Told
from service.store.schema import id_minutes
from service.store.upsert import Upsert

COUNTED_AS: Final = {
    causes.CLIENT_ABORT: "client",
    causes.TIMEOUT: "timeout",
    causes.FENCED: "fenced",
    causes.ADMIN: "admin",
    causes.UNATTRIBUTED: "unattributed",
}
"""The words of `aborts` in JSON, metrics and columns, by cause."""

ABORT_WORDS: Final = tuple(COUNTED_AS.values())

MINUTES: Final = Upsert(
    id_minutes,
    add=("commits", *(f"aborts_{word}" for word in ABORT_WORDS), "opened", "open_sum_ms", "marked", "marker_sum_ms"),
    most=("open_max_ms", "marker_max_ms", "last_ms"),
    least=("first_ms",),
)


@dataclass(slots=True)
class Cell:
    """As `service.domain.transaction_log.facts.Minute`, with the aborts by the word they count under."""

    commits: int = 0
    aborts: Counter[str] = field(default_factory=Counter)
    opened: int = 0
    open_sum_ms: int = 0
    open_max_ms: int = 0
    marked: int = 0
    marker_sum_ms: int = 0
    marker_max_ms: int = 0
    first_ms: int = 0
    last_ms: int = 0

    def add(self, more: Minute) -> None:
        self.opened += more.opened
        self.open_sum_ms += more.open_sum_ms
        self.open_max_ms = max(self.open_max_ms, more.open_max_ms)
        self.marked += more.marked
        self.marker_sum_ms += more.marker_sum_ms
        self.marker_max_ms = max(self.marker_max_ms, more.marker_max_ms)
        self._completed(more.commits, more.first_ms, more.last_ms)

    def add_pair(self, at_ms: int, told: Told) -> None:
        self._completed(told.commits, at_ms, at_ms)
        if told.open_ms is not None:
            self.add_open(told.open_ms)
        if told.marker_ms is not None:
            self.add_marker(told.marker_ms)

    def add_open(self, ms: int) -> None:
        self.opened += 1
        self.open_sum_ms += ms
        self.open_max_ms = max(self.open_max_ms, ms)

    def add_marker(self, ms: int) -> None:
        self.marked += 1
        self.marker_sum_ms += ms
        self.marker_max_ms = max(self.marker_max_ms, ms)

    def row(self, cluster_id: int, transactional_id: bytes, minute_ms: int) -> tuple[Any, ...]:
        """Of `id_minutes`. Without commits its times are the minute's ends, turned around: any commit moves them."""
        return (
            cluster_id,
            transactional_id,
            minute_ms,
            self.commits,
            *(self.aborts[word] for word in ABORT_WORDS),
            self.opened,
            self.open_sum_ms,
            self.open_max_ms,
            self.marked,
            self.marker_sum_ms,
            self.marker_max_ms,
            self.first_ms if self.commits else minute_ms + MINUTE_MS - 1,
            self.last_ms if self.commits else minute_ms,
        )

    def _completed(self, commits: int, first_ms: int, last_ms: int) -> None:
        if commits:
            self.first_ms = min(self.first_ms or first_ms, first_ms)
            self.last_ms = max(self.last_ms, last_ms)
            self.commits += commits

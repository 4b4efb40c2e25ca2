"""Formats durations, times and lists for sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from service.domain.transaction_log.states import is_time

_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))
NAMES_SHOWN: Final = 5
"""Maximum number of ids or partitions that a sentence names."""


def duration(ms: int) -> str:
    """Returns the duration as text, in at most two units: "9 m 12 s". A duration below 10 s has at most one decimal,
    and a duration below 1 s is in milliseconds: "340 ms"."""
    if ms < 1_000:
        return f"{max(ms, 0)} ms"
    if ms < 10_000:
        return f"{ms / 1000:.1f} s".replace(".0 ", " ")
    for (large, name), (small, part) in pairwise(_UNITS):
        if ms >= large:
            rest = ms % large // small
            return f"{ms // large} {name}" + (f" {rest} {part}" if rest else "")
    return f"{ms // 1_000} s"


def utc(ms: int) -> str:
    """Returns the time, like "2026-03-14 03:12:57 UTC"; a number that is no valid time is returned as a number."""
    if not is_time(ms):
        return str(ms)
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


@dataclass(frozen=True, slots=True)
class Names:
    """A list of `count` names, of which only the first ones are kept, in `shown`. `str()` returns a text like "a, b and
    3 more"."""

    shown: tuple[str, ...]
    count: int

    def __str__(self) -> str:
        if self.count > len(self.shown):
            return f"{', '.join(self.shown)} and {self.count - len(self.shown):,} more"
        *others, last = self.shown or ("",)
        return " and ".join([", ".join(others), last]) if others else last


def names_of(names: Sequence[str], most: int = NAMES_SHOWN) -> Names:
    return Names(tuple(names[:most]), len(names))


def partitions_of(places: Sequence[tuple[str, int]], most: int = NAMES_SHOWN) -> Names:
    """Returns the partitions as names, like "orders-0"; "no partition" without places."""
    return names_of([f"{topic}-{number}" for topic, number in places] or ["no partition"], most)


def join_names(names: Sequence[str], most: int = NAMES_SHOWN) -> str:
    """Returns the names as one text, like "a, b and 3 more"."""
    return str(names_of(names, most))


def describe_counts(truncated: Mapping[str, int]) -> str:
    """Returns the counts as one text, like "1,240 overdue_transaction and 3 data_gap", the largest first. `truncated`:
    a mapping from kind to count."""
    most_first = sorted(truncated.items(), key=lambda one: (-one[1], one[0]))
    return join_names([f"{number:,} {kind}" for kind, number in most_first])


def join_partitions(places: Sequence[tuple[str, int]], most: int = NAMES_SHOWN) -> str:
    """Returns the partitions as one text, like "orders-0, orders-3 and 4 more"; "no partition" without places."""
    return str(partitions_of(places, most))


def assumed_remark(config: str, *, is_assumed: bool) -> str:
    """Returns the remark that the value of the config is assumed; empty unless `is_assumed`."""
    return f" (assumed: the brokers' {config} could not be read)" if is_assumed else ""


def as_sentence(clause: str) -> str:
    """Returns the clause as a sentence; "" for an empty clause. A name such as `read_committed` at the beginning of the
    clause is not capitalised."""
    if clause.partition(" ")[0].isalpha():
        clause = clause[:1].upper() + clause[1:]
    return clause and f"{clause}."

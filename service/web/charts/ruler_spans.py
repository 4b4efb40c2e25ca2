"""The offsets of a partition, as spans for the ruler and its table, and the groups pinned above."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
OPEN: Final = "open"
HANGING: Final = "hanging"
MARKER: Final = "marker"
DECIDED: Final = "decided"
HIDDEN: Final = "hidden"
FOLDED: Final = "folded"

FILLERS: Final = frozenset({DECIDED, HIDDEN, FOLDED, "gap"})
"""Kinds of spans with unknown content, which are cut and left out first."""

SHOWN_FIRST: Final = frozenset({HANGING, OPEN})

STOPPED: Final = "stop"
SOON: Final = "soon"
FREE: Final = "free"


class Span(NamedTuple):
    """The offsets [first, next). `kind`: that of an explained offset, or one of the constants above. `begins`: only the
    start of the span is known; its records may lie among those of others. `marker`: C or A; `words`: of the kind, in
    the table; `who`, `href`: its owner; `ended`: by what it was ended."""

    first: int
    next: int
    kind: str
    who: str = ""
    words: str = ""
    href: str | None = None
    ended: str = ""
    marker: str | None = None
    begins: bool = False

    @property
    def length(self) -> int:
        return self.next - self.first


class Pin(NamedTuple):
    """A group at its committed offset. `kind`: STOPPED, SOON or FREE; `note`: what it does there."""

    offset: int
    group: str
    kind: str
    note: str


def all_of(spans: Iterable[Span], log_start: int, lso: int, high_watermark: int) -> list[Span]:
    """Returns the spans in order and without holes, from the log start to the high watermark."""
    found: list[Span] = []
    at = log_start
    for span in sorted(spans, key=lambda one: (one.first, one.next)):
        first, next_ = max(span.first, at), min(span.next, high_watermark)
        if next_ <= first:
            continue
        found += _untold(at, first, lso)
        found.append(span._replace(first=first, next=next_))
        at = next_
    return found + _untold(at, high_watermark, lso)


def _untold(first: int, next_: int, lso: int) -> list[Span]:
    decided = Span(first, min(next_, lso), DECIDED, words="decided")
    hidden = Span(max(first, lso), next_, HIDDEN, words="hidden, not read")
    return [span for span in (decided, hidden) if span.length > 0]

"""The spans and pins of a partition's ruler, and the scale on which the ruler draws them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from service.views import words

END: Final = 91.0
"""Place of the high watermark, in percent of the drawing."""

BROKEN: Final = 7.0
"""Least width, in percent, of a broken-off piece: a piece that is not drawn to scale."""

TO_SCALE: Final = 55.0
"""Maximum total width, in percent, of the pieces that are drawn to scale. Applies only if some piece is broken off."""

MOST_BROKEN: Final = 8
MOST_SPANS: Final = 24
WIDEST_OFFSET: Final = 4.0
_INSIDE: Final = 0.9
"""Distance, in percent, between a break mark and the end of the broken-off piece. The mark is inside the piece."""

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
OPEN: Final = "open"
HANGING: Final = "hanging"
MARKER: Final = "marker"
DECIDED: Final = "decided"
HIDDEN: Final = "hidden"
FOLDED: Final = "folded"

FILLERS: Final = frozenset({DECIDED, HIDDEN, FOLDED, "gap"})
"""Only spans of these kinds are cut."""

SHOWN_FIRST: Final = frozenset({HANGING, OPEN})

STOPPED: Final = "stop"
SOON: Final = "soon"
FREE: Final = "free"


class Piece(NamedTuple):
    """A span, or a part of one, with its place in percent."""

    span: Span
    is_broken: bool = False
    x: float = 0.0
    width: float = 0.0

    @property
    def is_filler(self) -> bool:
        return self.span.kind in FILLERS

    @property
    def middle(self) -> float:
        return round(self.x + self.width / 2, 2)

    @property
    def weight(self) -> int:
        """Returns the weight of a broken-off piece, by which the remaining width is shared out. Decided offsets weigh
        half as much as others, because consumers can read them."""
        return 1 if self.span.kind == DECIDED else 2

    @property
    def least(self) -> float:
        """Returns the least width of the piece, in percent. While some piece that is drawn to scale is narrower than
        its least width, `scaled` breaks off the longest piece that is drawn to scale; at most MOST_BROKEN pieces."""
        return 1.6 if self.span.kind in SHOWN_FIRST else 0.0 if self.span.kind == MARKER else 0.5


class Scale(NamedTuple):
    """The pieces with their places. `breaks`: places of the marks that show that offsets are left out."""

    pieces: tuple[Piece, ...]
    breaks: tuple[float, ...]

    def x_of(self, offset: int) -> float:
        """Returns the place of the offset, in percent. An offset outside of the log has the place of the nearer end."""
        place = bisect_right([piece.span.first for piece in self.pieces], offset) - 1
        piece = self.pieces[max(place, 0)]
        part = min(max((offset - piece.span.first) / piece.span.length, 0.0), 1.0)
        return round(piece.x + part * piece.width, 2)


def folded(spans: Sequence[Span], lso: int) -> list[Span]:
    """Returns at most MOST_SPANS + 2 spans: the spans nearest to the LSO, the last three spans, and at most two spans
    in place of all others. One of the two covers everything before the spans near the LSO, the other everything between
    these and the last three."""
    if len(spans) <= MOST_SPANS:
        return list(spans)
    near = bisect_right([span.first for span in spans], lso) - 1
    last = 3
    begin = max(min(near - MOST_SPANS // 3, len(spans) - MOST_SPANS), 0)
    end = begin + MOST_SPANS - last
    before, kept, between = spans[:begin], spans[begin:end], spans[end : len(spans) - last]
    return [*_one(before), *kept, *_one(between), *spans[len(spans) - last :]]


def _one(spans: Sequence[Span]) -> list[Span]:
    if not spans:
        return []
    return [Span(spans[0].first, spans[-1].next, FOLDED, word=words.plural(len(spans), "span"))]


def cut(spans: Iterable[Span], offsets: Iterable[int]) -> list[Span]:
    """Returns the spans. Fillers (spans of the kinds in FILLERS) are cut at `offsets`, so that the parts near these
    offsets can be drawn to scale."""
    found: list[Span] = []
    at = sorted(set(offsets))
    for span in spans:
        inner = [offset for offset in at if span.first < offset < span.next] if span.kind in FILLERS else []
        ends = [span.first, *inner, span.next]
        found += [span._replace(first=a, next=b) for a, b in pairwise(ends)]
    return found


def scaled(spans: Sequence[Span]) -> Scale:
    """Places the spans on one scale. The longest spans are broken off, at most MOST_BROKEN, until the others can be
    seen."""
    pieces = [Piece(span) for span in spans]
    scale = _scale(pieces)
    while any(not piece.is_broken and piece.span.length * scale < piece.least for piece in pieces):
        whole = [number for number, piece in enumerate(pieces) if not piece.is_broken]
        if len(whole) <= 1 or len(pieces) - len(whole) >= MOST_BROKEN:
            break
        longest = max(whole, key=lambda number: pieces[number].span.length)
        pieces[longest] = pieces[longest]._replace(is_broken=True)
        scale = _scale(pieces)
    placed = _placed(pieces, scale)
    return Scale(placed, _breaks(placed))


def _scale(pieces: Sequence[Piece]) -> float:
    """Returns the width of one offset, in percent."""
    broken = sum(piece.is_broken for piece in pieces)
    offsets = sum(piece.span.length for piece in pieces if not piece.is_broken)
    if not broken:
        return END / offsets
    return min(WIDEST_OFFSET, min(END - BROKEN * broken, TO_SCALE) / offsets)


def _placed(pieces: Sequence[Piece], scale: float) -> tuple[Piece, ...]:
    broken = [one for one in pieces if one.is_broken]
    drawn = scale * sum(one.span.length for one in pieces if not one.is_broken)
    more = (END - drawn - BROKEN * len(broken)) / max(sum(one.weight for one in broken), 1)
    found = []
    x = 0.0
    for piece in pieces:
        width = BROKEN + more * piece.weight if piece.is_broken else piece.span.length * scale
        found.append(piece._replace(x=round(x, 2), width=round(width, 2)))
        x += width
    return tuple(found)


def _breaks(pieces: Sequence[Piece]) -> tuple[float, ...]:
    """Returns the places of the break marks: both ends of each broken-off piece, except at the ends of the log."""
    found = []
    for number, piece in enumerate(pieces):
        if piece.is_broken:
            if number > 0:
                found.append(round(piece.x + _INSIDE, 2))
            if number < len(pieces) - 1:
                found.append(round(piece.x + piece.width - _INSIDE, 2))
    return tuple(found)


class Span(NamedTuple):
    """A span of the ruler: the offsets [first, next).

    - `kind`: the kind of an explained offset, or one of the constants above.
    - `begins`: True if only the start of the span is known; its records may lie among those of other producers.
    - `marker`: C or A.
    - `word`: the kind in words, for the table.
    - `size`: the number of records, in words.
    - `who`, `href`: the owner of the span.
    - `ended`: how and when the span ended, in words.
    """

    first: int
    next: int
    kind: str
    who: str = ""
    word: str = ""
    href: str | None = None
    ended: str = ""
    marker: str | None = None
    begins: bool = False
    size: str = ""

    @property
    def words(self) -> str:
        return ", ".join(filter(None, (self.word, self.size)))

    @property
    def length(self) -> int:
        return self.next - self.first


class Pin(NamedTuple):
    """A group at its committed offset. `kind`: STOPPED, SOON or FREE; `note`: what the group does at this offset."""

    offset: int
    group: str
    kind: str
    note: str


def all_of(spans: Iterable[Span], log_start: int, lso: int, high_watermark: int) -> list[Span]:
    """Returns the spans in order and without holes, from the log start to the high watermark."""
    found: list[Span] = []
    at = log_start
    for span in sorted(spans, key=lambda span: (span.first, span.next)):
        first, next_ = max(span.first, at), min(span.next, high_watermark)
        if next_ <= first:
            continue
        found += _not_known(at, first, lso)
        found.append(span._replace(first=first, next=next_))
        at = next_
    return found + _not_known(at, high_watermark, lso)


def _not_known(first: int, next_: int, lso: int) -> list[Span]:
    decided = Span(first, min(next_, lso), DECIDED, word="decided")
    hidden = Span(max(first, lso), next_, HIDDEN, word="hidden, not read")
    return [span for span in (decided, hidden) if span.length > 0]

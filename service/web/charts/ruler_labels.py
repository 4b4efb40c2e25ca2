"""Words on the ruler: in a block, below it, and beside the pins, where they fit; the table has them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from service.views import words
from service.web.charts.ruler_scale import DECIDED, END, HANGING, HIDDEN, SOON, STOPPED, Piece, Pin

_PX: Final = 9.4
"""Width of one percent in px, where the drawing is narrowest (940 px)."""

_LETTER: Final = 5.9
MOST_PINS: Final = 12
MOST_LEVELS: Final = 3
_LONGEST: Final = 60
"""A label with more letters than this is left to the table."""


class Label(NamedTuple):
    """A label of up to two lines. `is_below`: it is under the block, with a line to it."""

    x: float
    anchor: str
    is_below: bool
    lines: tuple[str, ...]
    is_critical: bool = False


class PinMark(NamedTuple):
    """The pin of the groups at one offset. `level`: row of its words, from the bottom; None if there was no room for
    them."""

    x: float
    kind: str
    level: int | None
    anchor: str
    title: str
    note: str


def _wide(*lines: str) -> float:
    return max(len(line) for line in lines) * _LETTER / _PX + 0.8


def inside(piece: Piece) -> tuple[Label, ...]:
    """Returns a label with all lines of the piece, or with the first alone; empty if neither fits into the piece."""
    lines = _lines(piece)
    for some in (lines, lines[:1]):
        if some and _wide(*some) <= piece.width:
            return (Label(round(piece.x + piece.width / 2, 2), "middle", False, some),)
    return ()


def below(piece: Piece, taken: list[tuple[float, float]]) -> tuple[Label, ...]:
    """Returns a label below the piece; empty if it would touch another one. `taken`: the places that have labels
    already; that of the new label is added."""
    span = piece.span
    lines = _lines(piece)
    is_critical = span.kind == HANGING
    if is_critical:
        lines = tuple(filter(None, (f"hanging: {span.who}" if span.who else "hanging", span.size)))
    if not lines or max(map(len, lines)) > _LONGEST:
        lines = (span.words,) if span.words and len(span.words) <= _LONGEST else ()
    if not lines:
        return ()
    middle = round(piece.x + piece.width / 2, 2)
    width = _wide(*lines)
    is_right = middle + width > END and middle - width > 0
    begin, end = (middle - width, middle) if is_right else (middle, middle + width)
    if any(begin < right and left < end for left, right in taken):
        return ()
    taken.append((begin, end))
    return (Label(middle, "end" if is_right else "start", True, lines, is_critical),)


def _lines(piece: Piece) -> tuple[str, ...]:
    span = piece.span
    if span.kind == DECIDED:
        return ("decided", words.about(span.length))
    if piece.is_filler:
        return ("hidden" if span.kind == HIDDEN else span.kind, words.plural(span.length, "offset"))
    return tuple(line for line in (span.who, span.words) if line)


def place_pins(pins: Sequence[tuple[float, Pin]]) -> tuple[tuple[PinMark, ...], int, int]:
    """Returns the pins with the rows of their words, the number of rows, and the number of groups left out."""
    at: dict[float, list[Pin]] = {}
    for x, pin in sorted(pins):
        at.setdefault(x, []).append(pin)
    chosen = sorted(at, key=lambda x: (min(_weight(pin) for pin in at[x]), x))[:MOST_PINS]
    rows = _Rows(chosen)
    found = [_place(x, sorted(at[x], key=_weight), rows) for x in chosen]
    left_out = sum(len(some) for x, some in at.items() if x not in chosen)
    used = max((one.level or 0 for one in found), default=0) + 1
    return tuple(sorted(found)), used, left_out


class _Rows:
    """The places that the words of pins cover, row by row from the bottom. The line below a pin goes through the rows
    below its own."""

    def __init__(self, pins: Sequence[float]) -> None:
        self._pins = pins
        self._levels: dict[float, int] = {}
        self._words: list[list[tuple[float, float]]] = [[] for _ in range(MOST_LEVELS)]

    def take(self, x: float, level: int, begin: float, end: float) -> bool:
        """Takes the place if there is room in that row; returns True if there was."""
        if begin < 0 or end > 100 or any(begin < right and left < end for left, right in self._words[level]):
            return False
        if any(left <= x <= right for row in self._words[:level] for left, right in row):
            return False
        if any(begin <= other <= end and self._goes_through(other, level) for other in self._pins if other != x):
            return False
        self._words[level].append((begin, end))
        self._levels[x] = level
        return True

    def _goes_through(self, other: float, level: int) -> bool:
        """Returns True if the line of that pin goes through the row. A pin without a row counts as in the bottom row,
        so that room is left for its words there."""
        return self._levels.get(other, 0) >= level


def _weight(pin: Pin) -> int:
    return (STOPPED, SOON).index(pin.kind) if pin.kind in (STOPPED, SOON) else 2


def _place(x: float, pins: Sequence[Pin], rows: _Rows) -> PinMark:
    """Returns the mark of the pins at one offset, and takes room for its words. `pins`: the worst first."""
    kind = pins[0].kind
    if len(pins) == 1:
        title, note = f"group {pins[0].group}", pins[0].note
    else:
        title, note = f"{len(pins)} groups", "; ".join(dict.fromkeys(pin.note for pin in pins))
    width = _wide(title, note) + 1
    if max(len(title), len(note)) <= _LONGEST:
        for level in range(MOST_LEVELS):
            for anchor, begin, end in (("start", x, x + width), ("end", x - width, x)):
                if rows.take(x, level, begin, end):
                    return PinMark(x, kind, level, anchor, title, note)
    return PinMark(x, kind, None, "start", title, note)

"""The offset ruler: the places of log start, LSO and high watermark, and of the spans between them. Pure geometry, in
percent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from service.views import words
from service.views.partitions.judged import JudgedPartition
from service.web.charts.ruler_scale import (
    ABORTED,
    DECIDED,
    END,
    HANGING,
    HIDDEN,
    MARKER,
    SHOWN_FIRST,
    SOON,
    STOPPED,
    Piece,
    Pin,
    Span,
    all_of,
    cut,
    folded,
    scaled,
)

_PX: Final = 9.4
"""Width of one percent in px, where the drawing is narrowest (940 px)."""

_LETTER: Final = 5.9
MOST_PINS: Final = 12
MOST_LEVELS: Final = 3
_LONGEST: Final = 60
"""Maximum number of letters in a line of a label below a block, or of the text of a pin. A longer text is left out."""


class Label(NamedTuple):
    """A label of up to two lines. `is_below`: the label is under the block, with a line to the block."""

    x: float
    anchor: str
    is_below: bool
    lines: tuple[str, ...]
    is_critical: bool = False


class PinMark(NamedTuple):
    """The pin of the groups at one offset. `level`: the row of the pin's text, from the bottom; None if there was no
    room for the text, or if the text is too long."""

    x: float
    kind: str
    level: int | None
    anchor: str
    title: str
    note: str


def _wide(*lines: str) -> float:
    return max(len(line) for line in lines) * _LETTER / _PX + 0.8


def inside(piece: Piece) -> tuple[Label, ...]:
    """Returns the label inside the piece. The label has all lines if they fit, otherwise only the first line. If that
    does not fit either, there is no label."""
    lines = _lines(piece)
    for some in (lines, lines[:1]):
        if some and _wide(*some) <= piece.width:
            return (Label(piece.middle, "middle", False, some),)
    return ()


def below(piece: Piece, taken: list[tuple[float, float]]) -> tuple[Label, ...]:
    """Returns a label below the piece. If the text is too long, the label has only the words of the span. Returns no
    label if the piece has no text, if even the words of the span are too long, or if the label would touch another
    label. `taken`: the places of the labels so far; the place of the new label is added."""
    span = piece.span
    lines = _lines(piece)
    is_critical = span.kind == HANGING
    if is_critical:
        lines = tuple(filter(None, (f"hanging: {span.who}" if span.who else "hanging", span.size)))
    if not lines or max(map(len, lines)) > _LONGEST:
        lines = (span.words,) if span.words and len(span.words) <= _LONGEST else ()
    if not lines:
        return ()
    width = _wide(*lines)
    is_right = piece.middle + width > END and piece.middle - width > 0
    begin, end = (piece.middle - width, piece.middle) if is_right else (piece.middle, piece.middle + width)
    if any(begin < right and left < end for left, right in taken):
        return ()
    taken.append((begin, end))
    return (Label(piece.middle, "end" if is_right else "start", True, lines, is_critical),)


def _lines(piece: Piece) -> tuple[str, ...]:
    span = piece.span
    if span.kind == DECIDED:
        return ("decided", words.about(span.length))
    if piece.is_filler:
        return ("hidden" if span.kind == HIDDEN else span.kind, words.plural(span.length, "offset"))
    return tuple(line for line in (span.who, span.words) if line)


def place_pins(pins: Sequence[tuple[float, Pin]]) -> tuple[tuple[PinMark, ...], int, int]:
    """Returns the marks of at most MOST_PINS offsets. A mark stands for all pins at its offset, and has the row of
    their text. Also returns the number of rows, and the number of pins that have no mark."""
    at: dict[float, list[Pin]] = {}
    for x, pin in sorted(pins):
        at.setdefault(x, []).append(pin)
    chosen = sorted(at, key=lambda x: (min(_weight(pin) for pin in at[x]), x))[:MOST_PINS]
    rows = _Rows(chosen)
    found = [_place(x, sorted(at[x], key=_weight), rows) for x in chosen]
    left_out = sum(len(some) for x, some in at.items() if x not in chosen)
    used = max((mark.level or 0 for mark in found), default=0) + 1
    return tuple(sorted(found)), used, left_out


class _Rows:
    """The places that the texts of pins cover, row by row from the bottom. The vertical line of a pin crosses all rows
    below the row of its text."""

    def __init__(self, pins: Sequence[float]) -> None:
        self._pins = pins
        self._levels: dict[float, int] = {}
        self._words: list[list[tuple[float, float]]] = [[] for _ in range(MOST_LEVELS)]

    def take(self, x: float, level: int, begin: float, end: float) -> bool:
        """Reserves the place from `begin` to `end` in the row, for the text of the pin at `x`, unless another text or
        line is in the way. Returns True if the place is reserved."""
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
        """Returns True if the line of the pin at `other` crosses the row. A pin that has no row yet counts as a pin of
        the bottom row, so that its text finds room there."""
        return self._levels.get(other, 0) >= level


def _weight(pin: Pin) -> int:
    return (STOPPED, SOON).index(pin.kind) if pin.kind in (STOPPED, SOON) else 2


def _place(x: float, pins: Sequence[Pin], rows: _Rows) -> PinMark:
    """Returns the mark for the pins at one offset, and reserves the place of the mark's text in `rows`. `pins`: the
    worst first."""
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


_CSS: Final = {
    "committed": "committed",
    "aborted": "aborted",
    "open": "open",
    "hanging": "hanging",
    "non_transactional": "nontx",
    "decided": "old",
    "hidden": "unread",
    "unknown": "nontx",
}
_NEAR: Final = 24.0
"""If LSO and high watermark are less than this distance (in percent) apart, their labels would touch."""


class Block(NamedTuple):
    """A drawn span. `css`: class of its colours; `hatched`: True if it is filled with the pattern; `labels`: may be
    empty."""

    x: float
    width: float
    css: str
    hatched: bool
    labels: tuple[Label, ...]


class Mark(NamedTuple):
    """A marker: C (commit) or A (abort) at its offset; "" if compaction emptied it."""

    x: float
    letter: str


class Axis(NamedTuple):
    """A label at the foot of the ruler. `anchor`: start, middle or end."""

    x: float
    anchor: str
    name: str
    offset: int
    css: str


class Ruler(NamedTuple):
    """The drawing of a partition's offsets. `levels`: number of rows of pins, 1 to 3. `hidden`: number of offsets from
    the LSO up to the high watermark. `spans`: all spans in order, for the table. `more_pins`: number of groups that are
    not drawn, because pins are drawn for at most MOST_PINS offsets."""

    blocks: tuple[Block, ...]
    marks: tuple[Mark, ...]
    breaks: tuple[float, ...]
    pins: tuple[PinMark, ...]
    more_pins: int
    levels: int
    axes: tuple[Axis, ...]
    log_start: int
    last_stable_offset: int
    high_watermark: int
    lso_x: float
    spans: tuple[Span, ...]

    @property
    def hidden(self) -> int:
        return self.high_watermark - self.last_stable_offset

    @property
    def top(self) -> int:
        """Returns how far, in px, everything except the pins is moved down to make room for the pins."""
        return 28 * (self.levels - 1)

    def readable(self, span: Span) -> str:
        """Returns, in words, whether read_committed consumers get the records of the span."""
        if span.kind == MARKER:
            return "never delivered"
        if span.first == self.last_stable_offset and self.hidden:
            return "no: the LSO is here"
        if span.first >= self.last_stable_offset:
            return "not yet"
        if span.kind == ABORTED:
            return "skipped"
        return "yes, except aborted records" if span.kind == "decided" else "yes"


def draw(
    log_start: int, last_stable_offset: int, high_watermark: int, spans: Iterable[Span], pins: Iterable[Pin] = ()
) -> Ruler | None:
    """Returns the ruler; None if the log is empty or its start is unknown (negative). Offsets without a span are drawn
    as decided if they are below the LSO, else as hidden. Spans are cut at the ends of the log, and pins beyond an
    end are moved to that end. An LSO below the log start (Kafka 4.3 reports such LSOs) is drawn at the log start."""
    if log_start < 0 or high_watermark <= log_start:
        return None
    lso = min(max(last_stable_offset, log_start), high_watermark)
    whole = all_of(spans, log_start, lso, high_watermark)
    shown = [pin._replace(offset=min(max(pin.offset, log_start), high_watermark)) for pin in pins]
    pieces = cut(folded(whole, lso), [lso, *(pin.offset for pin in shown)])
    scale = scaled(pieces)
    lso_x = scale.x_of(lso)
    placed, levels, more = place_pins([(scale.x_of(pin.offset), pin) for pin in shown])
    return Ruler(
        blocks=_blocks(scale.pieces),
        marks=tuple(Mark(piece.middle, piece.span.marker or "") for piece in scale.pieces if piece.span.kind == MARKER),
        breaks=scale.breaks,
        pins=placed,
        more_pins=more,
        levels=levels,
        axes=_axes(log_start, lso, high_watermark, lso_x),
        log_start=log_start,
        last_stable_offset=lso,
        high_watermark=high_watermark,
        lso_x=lso_x,
        spans=tuple(whole),
    )


def _blocks(pieces: Sequence[Piece]) -> tuple[Block, ...]:
    """Returns the blocks with their labels. A label is in its block if it fits; else it is below the block if there is
    room. Labels of hanging spans are always below; a filler (`Piece.is_filler`) has no label below. Labels of hanging
    and open spans are placed first."""
    drawn = [piece for piece in pieces if piece.span.kind != MARKER]
    labels: dict[int, tuple[Label, ...]] = {}
    taken: list[tuple[float, float]] = []
    for number in sorted(range(len(drawn)), key=lambda n: (drawn[n].span.kind not in SHOWN_FIRST, n)):
        piece = drawn[number]
        labels[number] = () if piece.span.kind == HANGING else inside(piece)
        if not labels[number] and not piece.is_filler:
            labels[number] = below(piece, taken)
    return tuple(
        Block(piece.x, piece.width, _CSS.get(piece.span.kind, "gap"), piece.span.kind == ABORTED, labels[number])
        for number, piece in enumerate(drawn)
    )


def _axes(log_start: int, lso: int, high_watermark: int, lso_x: float) -> tuple[Axis, ...]:
    start = Axis(0.0, "start", "log start", log_start, "t-muted")
    if lso == high_watermark:
        end = Axis(END, "middle", "LSO = high watermark", high_watermark, "t-muted")
        return start, end
    is_left, is_right = lso_x < 14, END - lso_x < _NEAR
    stable = Axis(
        lso_x, "end" if is_right else "start" if is_left else "middle", "LSO (last stable offset)", lso, "t-crit"
    )
    high = Axis(
        100.0 if is_right else END, "end" if is_right else "middle", "HW (high watermark)", high_watermark, "t-muted"
    )
    return (stable, high) if lso_x < 9 else (start, stable, high)


class Mini(NamedTuple):
    """The small ruler for the cell of a table, without words. `lso_x`: start of the hidden offsets, in percent. `css`:
    the CSS class of the blocker; `focus`: the width of the blocker, in percent."""

    lso_x: float
    focus: float
    css: str
    text: str


def mini_of(judged: JudgedPartition) -> Mini | None:
    """Returns the small ruler of a partition; None if nothing is hidden."""
    row = judged.row
    return mini(row.log_start, row.last_stable_offset, row.high_watermark, judged.relation)


def mini(log_start: int, last_stable_offset: int, high_watermark: int, relation: str = "open") -> Mini | None:
    """Returns the small ruler; None if nothing is hidden. The ruler covers the end of the log: twice as many offsets as
    are hidden, at least 1,000, at most the whole log. `relation`: the RelationKind of the blocker."""
    start = max(log_start, 0)
    lso = max(last_stable_offset, start)
    hidden = high_watermark - lso
    if hidden <= 0:
        return None
    drawn = min(max(2 * hidden, 1_000), high_watermark - start)
    percent = 100 * hidden / drawn
    shown = max(percent, 3.0)
    css = "hanging" if relation == "hanging" else "unread" if relation == "unknown" else "open"
    focus = min(4.0, shown) if css == "hanging" else shown
    share = words.share(hidden, drawn)
    return Mini(round(100 - shown, 2), round(focus, 2), css, f"{share} of the last {drawn:,} offsets are hidden")

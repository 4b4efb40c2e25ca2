"""The offset ruler: the places of log start, LSO and high watermark, and of the spans between them. Pure geometry, in
percent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from service.views import words
from service.web.charts.ruler_labels import Label, PinMark, below, inside, place_pins
from service.web.charts.ruler_scale import (
    ABORTED,
    END,
    HANGING,
    MARKER,
    SHOWN_FIRST,
    Piece,
    Pin,
    Span,
    all_of,
    cut,
    folded,
    scaled,
)

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
"""Distance, in percent, below which the words of two lines would touch."""


class Block(NamedTuple):
    """A drawn span. `css`: class of its colours; `hatched`: filled with the pattern; `labels`: may be empty."""

    x: float
    width: float
    css: str
    hatched: bool
    labels: tuple[Label, ...]


class Mark(NamedTuple):
    """A marker: C or A at its offset; "" where compaction emptied it."""

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
    """The drawing of a partition's offsets. `levels`: rows of pins, 1 to 3. `hidden`: offsets from the LSO to the high
    watermark; `spans`: all of them in order, for the table. `more_pins`: number of groups that have no room in the
    drawing."""

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
        """Returns by how much everything but the pins is drawn lower."""
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
        return "yes, aborted ones are skipped" if span.kind == "decided" else "yes"


def draw(
    log_start: int, last_stable_offset: int, high_watermark: int, spans: Iterable[Span], pins: Iterable[Pin] = ()
) -> Ruler | None:
    """Returns the ruler; None if the log is empty. `spans` may leave offsets out, and lie outside of the log: offsets
    without a span are drawn as decided below the LSO and as hidden above. An LSO below the log start (4.3 reports such)
    is drawn at the log start."""
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
        marks=tuple(Mark(_middle(one), one.span.marker or "") for one in scale.pieces if one.span.kind == MARKER),
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


def _middle(piece: Piece) -> float:
    return round(piece.x + piece.width / 2, 2)


def _blocks(pieces: Sequence[Piece]) -> tuple[Block, ...]:
    """Returns the blocks with their labels: in the block if the label fits, below it if there is room. Hanging and open
    spans choose first."""
    drawn = [one for one in pieces if one.span.kind != MARKER]
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
    """The small ruler for the cell of a table, without words. `lso_x`: start of the hidden offsets, in percent; `css`:
    of the blocker, which is drawn `focus` percent wide."""

    lso_x: float
    focus: float
    css: str
    text: str


def mini(
    log_start: int, last_stable_offset: int, high_watermark: int, relation: str = "open", window: int | None = None
) -> Mini | None:
    """Returns the small ruler; None if nothing is hidden. It covers the last `window` offsets of the log, by default
    twice the hidden ones and 1,000 at least; give one `window` to all rows of a table that are to be compared.
    `relation`: of the blocker."""
    start = max(log_start, 0)
    lso = max(last_stable_offset, start)
    hidden = high_watermark - lso
    if hidden <= 0:
        return None
    drawn = min(max(window or max(2 * hidden, 1_000), hidden), high_watermark - start)
    percent = 100 * hidden / drawn
    shown = max(percent, 3.0)
    css = "hanging" if relation == "hanging" else "unread" if relation == "unknown" else "open"
    focus = min(4.0, shown) if css == "hanging" else shown
    share = words.share(hidden, drawn)
    return Mini(round(100 - shown, 2), round(focus, 2), css, f"{share} of the last {drawn:,} offsets are hidden")

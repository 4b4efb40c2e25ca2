"""Geometry of charts by the minute, drawn as SVG: lines, areas and bars. Pure: computes SVG attributes from numbers.

For `area` and `stacked`, x goes from 0 to WIDTH and the page scales it to the width of the box; for `bars_of`, x is in
percent. y is in pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from service.domain.transaction_log.id_delta import MINUTE_MS, IdMinute
from service.views.transactions.spans import ends_of
from service.views.words import COUNTED, WORDS
from service.web.charts.swimlane import Axis, Window

WIDTH: Final = 600
BOTTOM: Final = 106
TOP: Final = 10
_STEPS: Final = (1, 2, 4, 6, 8, 10)
_GAP: Final = 1.0


class Line(NamedTuple):
    """A line of the grid, and the number that it marks: `0`, `8 k`."""

    y: float
    text: str


class Bar(NamedTuple):
    """A bar, or one part of a stacked bar. `style`: the CSS style of what the bar counts."""

    style: str
    x: float
    y: float
    width: float
    height: float


class Area(NamedTuple):
    """A filled area and the line above it. `fill`, `line`: SVG paths, "" if there is nothing to draw; `grid`: the lines
    of the grid, from the bottom up."""

    grid: tuple[Line, ...]
    fill: str
    line: str


class Bars(NamedTuple):
    """Stacked bars. `grid`: the lines of the grid, from the bottom up."""

    grid: tuple[Line, ...]
    bars: tuple[Bar, ...]


def nice_top(most: int) -> int:
    """Returns the upper end of an axis that includes `most`; half of that end is a whole number."""
    size = 1
    while True:
        for step in _STEPS:
            if step * size >= max(most, 2) and step * size % 2 == 0:
                return step * size
        size *= 10


def area(values: Sequence[int], missing: int = 0) -> Area:
    """Returns the area for `values`, which has one value for each minute. The first `missing` minutes were not counted,
    and nothing is drawn for them."""
    top = nice_top(max(values, default=0))
    step = WIDTH / max(missing + len(values) - 1, 1)
    points = [f"{(missing + i) * step:.1f} {_y(value, top):.1f}" for i, value in enumerate(values)]
    if not points:
        return Area(_grid(top), "", "")
    first, last = missing * step, (missing + len(values) - 1) * step
    line = "M" + " L".join(points)
    return Area(_grid(top), f"M{first:.1f} {BOTTOM} L{' L'.join(points)} L{last:.1f} {BOTTOM}Z", line)


def stacked(minutes: Sequence[Mapping[str, int]], styles: Sequence[str]) -> Bars:
    """Returns the stacked bars. `minutes`: for each minute, a mapping from style to number. The parts of a bar are
    drawn upwards in the order of `styles`."""
    top = nice_top(max((sum(minute.values()) for minute in minutes), default=0))
    step = WIDTH / max(len(minutes), 1)
    bars = []
    for place, minute in enumerate(minutes):
        below = 0
        for style in styles:
            number = minute.get(style, 0)
            if number:
                y, foot = _y(below + number, top), _y(below, top)
                bars.append(Bar(style, round(place * step + _GAP, 1), y, round(step - 2 * _GAP, 1), round(foot - y, 1)))
                below += number
    return Bars(_grid(top), tuple(bars))


def _y(value: int, top: int) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * value / top, 1)


def _grid(top: int) -> tuple[Line, ...]:
    return tuple(Line(_y(value, top), _short(value)) for value in (0, top // 2, top))


def _short(value: int) -> str:
    for unit, size in ((" G", 10**9), (" M", 10**6), (" k", 10**3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return str(value)


HEIGHT: Final = 110.0
LEAST: Final = 3.0
"""Least height of a piece, in px, so that one abort among thousands of commits is visible."""

_MOST_BARS: Final = 180
_WIDTHS_MS: Final = tuple(MINUTE_MS * minutes for minutes in (1, 2, 5, 10, 30, 60, 120))


class Bin(NamedTuple):
    """The transactions that ended in [from_ms, to_ms). `ends`: the number of commits, then the numbers of aborts by
    cause. `longest_ms`: the longest time for which one of these transactions was open; None if that time is not
    known."""

    from_ms: int
    to_ms: int
    ends: dict[str, int]
    longest_ms: int | None

    @property
    def total(self) -> int:
        return sum(self.ends.values())


class Piece(NamedTuple):
    """A part of a bar. `x`, `width`: in percent; `y`, `height`: in px, downwards."""

    style: str
    x: float
    width: float
    y: float
    height: float


class CauseBars(NamedTuple):
    """The bars of a window. `most`: the number of transactions in the highest bar; `width_ms`: the time that one bar
    covers."""

    width_ms: int
    most: int
    bins: tuple[Bin, ...]
    pieces: tuple[Piece, ...]

    @property
    def counts(self) -> list[tuple[int, dict[str, int]]]:
        """Returns, for each bar, its start in ms and the numbers of transactions that ended in it, for the script that
        draws the bars."""
        return [(one.from_ms, one.ends) for one in self.bins]


def bars_of(axis: Axis, window: Window, minutes: Iterable[IdMinute]) -> CauseBars:
    """Returns the bars for the minutes on the axis; other minutes are ignored. The bars are as narrow as possible, with
    at most _MOST_BARS in the window."""
    width_ms = next((one for one in _WIDTHS_MS if window.span_ms // one <= _MOST_BARS), _WIDTHS_MS[-1])
    found: dict[int, Bin] = {}
    for minute in minutes:
        if not axis.from_ms <= minute.minute_ms < axis.to_ms:
            continue
        from_ms = axis.from_ms + (minute.minute_ms - axis.from_ms) // width_ms * width_ms
        found[from_ms] = _added(found.get(from_ms) or Bin(from_ms, from_ms + width_ms, {}, None), minute)
    bins = tuple(one for _, one in sorted(found.items()) if one.total)
    most = max((one.total for one in bins), default=0)
    return CauseBars(width_ms, most, bins, tuple(piece for one in bins for piece in _pieces(axis, one, most)))


def _added(one: Bin, minute: IdMinute) -> Bin:
    ends = {word: one.ends.get(word, 0) + count for word, count in ends_of(minute).items()}
    longest = [ms for ms in (one.longest_ms, minute.sums.open_max_ms if minute.sums.opened else None) if ms is not None]
    return one._replace(ends=ends, longest_ms=max(longest, default=None))


def _pieces(axis: Axis, one: Bin, most: int) -> Iterable[Piece]:
    """Yields the pieces of a bar from the bottom up. Bars have a small gap between them."""
    x, to_x = axis.x(one.from_ms), axis.x(one.to_ms)
    heights = {word: max(HEIGHT * count / most, LEAST) for word, count in one.ends.items() if count}
    excess = sum(heights.values()) - HEIGHT
    if excess > 0:  # the largest piece gives up the height that was added to the small ones
        heights[max(heights, key=heights.__getitem__)] -= excess
    y = HEIGHT
    for word, height in heights.items():
        y -= height
        style = "commit" if word == "commit" else WORDS[COUNTED[word]].style
        yield Piece(style, round(x + 0.05, 3), round(max(to_x - x - 0.1, 0.1), 3), round(y, 1), round(height, 1))

"""Charts by the minute as SVG: geometry of lines, areas and bars. Pure: numbers in, attributes out.

The plot is as wide as its box: x goes from 0 to WIDTH and is stretched; y is in pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

WIDTH: Final = 600
BOTTOM: Final = 106
TOP: Final = 10
_STEPS: Final = (1, 2, 4, 6, 8, 10)
_GAP: Final = 1.0


class Line(NamedTuple):
    """A line of the grid, and the number it stands for: `0`, `8 k`."""

    y: float
    text: str


class Bar(NamedTuple):
    """A bar, or one part of a stacked bar. `style`: of the things that it counts."""

    style: str
    x: float
    y: float
    width: float
    height: float


class Area(NamedTuple):
    """Paths of a filled area and of the line above it; `grid` from the bottom up."""

    grid: tuple[Line, ...]
    fill: str
    line: str


class Bars(NamedTuple):
    """Stacked bars; `grid` from the bottom up."""

    grid: tuple[Line, ...]
    bars: tuple[Bar, ...]


def nice_top(most: int) -> int:
    """Returns the upper end of an axis on which `most` fits; half of that end is a whole number."""
    size = 1
    while True:
        for step in _STEPS:
            if step * size >= max(most, 2) and step * size % 2 == 0:
                return step * size
        size *= 10


def area(values: Sequence[int], missing: int = 0) -> Area:
    """Returns the area of one value a minute. The first `missing` minutes were not counted, and nothing is drawn for
    them."""
    top = nice_top(max(values, default=0))
    step = WIDTH / max(missing + len(values) - 1, 1)
    points = [f"{(missing + i) * step:.1f} {_y(value, top):.1f}" for i, value in enumerate(values)]
    if not points:
        return Area(_grid(top), "", "")
    first, last = missing * step, (missing + len(values) - 1) * step
    line = "M" + " L".join(points)
    return Area(_grid(top), f"M{first:.1f} {BOTTOM} L{' L'.join(points)} L{last:.1f} {BOTTOM}Z", line)


def stacked(minutes: Sequence[Mapping[str, int]], styles: Sequence[str]) -> Bars:
    """Returns the stacked bars. `minutes`: for each minute the numbers by style, drawn upwards in the order of
    `styles`."""
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

"""The chart of expiring ids: one bar for each seventh of the time for which idle ids are kept. Pure geometry, in
percent and pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from service.views import words

BARS: Final = 7
WIDTH: Final = 11.0
_STEP: Final = 14.2
_LEFT: Final = 1.0
FOOT: Final = 106
_HIGHEST: Final = 92
_CUT_ABOVE: Final = 5
"""The tallest bar is cut off if it is more than this many times as high as the second tallest, and the second tallest
is not empty."""


class Bar(NamedTuple):
    """A bar of the chart. `x`, `middle`: in percent; `y`, `height`: in pixels. `is_cut`: True if the bar is drawn
    lower than its number requires. `is_soon`: True for the first bar, which counts the ids that expire soonest."""

    x: float
    middle: float
    y: int
    height: int
    number: int
    text: str
    is_cut: bool
    is_soon: bool


def bounds_ms(kept_ms: int) -> list[int]:
    """Returns the upper ends of the bars, as ms until an id expires. `kept_ms`: how long an idle id is kept."""
    return [kept_ms * (number + 1) // BARS for number in range(BARS)]


def bars(counts: Sequence[int], kept_ms: int) -> list[Bar]:
    """Returns the bars. `counts`: for each of `bounds_ms`, the number of ids that expire between the previous bound and
    this bound, as `count_ids` counts them."""
    ordered = sorted(counts)
    tallest, next_ = ordered[-1], ordered[-2]
    is_cut = tallest > _CUT_ABOVE * next_ > 0
    full = next_ * 2 if is_cut else max(tallest, 1)
    found = []
    for number, count in enumerate(counts):
        height = min(_HIGHEST * count // full, _HIGHEST)
        height = max(height, 3) if count else 0
        x = round(_LEFT + number * _STEP, 1)
        found.append(
            Bar(
                x=x,
                middle=round(x + WIDTH / 2, 1),
                y=FOOT - height,
                height=height,
                number=count,
                text=_label(number, kept_ms),
                is_cut=is_cut and count == tallest,
                is_soon=number == 0,
            )
        )
    return found


def _label(number: int, kept_ms: int) -> str:
    begin, end = kept_ms * number // BARS, kept_ms * (number + 1) // BARS
    day = 86_400_000
    if not begin % day and not end % day:
        return f"{begin // day} to {end // day} d"
    return f"< {words.duration(end)}"

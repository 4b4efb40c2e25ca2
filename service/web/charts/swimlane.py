"""Geometry of the swimlane of one transactional.id: lanes over one time axis; x in percent, y in px. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from service.domain.transaction_log.states import TWO_PHASE_TIMEOUT_MS
from service.store.queries.history import ProducerRow
from service.views import words
from service.views.transactions.spans import Life
from service.views.words import WORDS

MOST_DRAWN: Final = 60
"""Maximum number of transactions that are drawn one by one. If there are more, bars are drawn instead, each for a
minute or a longer span (`bars_of`)."""

PREPARE_PX: Final = 5
"""Least width of the dark end of a bar, in px. The markers often take milliseconds: to scale, the end would be too
narrow to see."""

TALL: Final = 50.0
"""Height of the lane of open times, in px."""

HEADROOM: Final = 1.3
"""The lane of open times is this many times as high as the longest open time, or as the timeout if the timeout is
longer. So the text of the timeout line fits above the line."""

WIDTH_PX: Final = 912.0
"""Least width of the lanes in px, in a narrow browser window. Labels that would overlap at this width are left out at
any width."""

_CHARACTER_PX: Final = 6.6
_LAST_EPOCH: Final = 32_766
_MINUTE_MS: Final = 60_000


class Window(NamedTuple):
    """The part of the past that is drawn: `steps` steps of `step_ms` each. The end of the axis is rounded up to a
    multiple of `grain_ms`."""

    word: str
    text: str
    step_ms: int
    steps: int
    grain_ms: int

    @property
    def span_ms(self) -> int:
        return self.step_ms * self.steps


WINDOWS: Final = {
    window.word: window
    for window in (
        Window("15m", "15 m", 3 * _MINUTE_MS, 5, _MINUTE_MS),
        Window("1h", "1 h", 10 * _MINUTE_MS, 6, _MINUTE_MS),
        Window("24h", "24 h", 240 * _MINUTE_MS, 6, 10 * _MINUTE_MS),
        Window("7d", "7 d", 1440 * _MINUTE_MS, 7, 60 * _MINUTE_MS),
    )
}


class Axis(NamedTuple):
    """The time axis, from the first drawn moment to the last. Earlier and later times are drawn at its ends."""

    from_ms: int
    to_ms: int

    def x(self, ms: int) -> float:
        return round(100 * (min(max(ms, self.from_ms), self.to_ms) - self.from_ms) / (self.to_ms - self.from_ms), 3)

    def has(self, ms: int) -> bool:
        return self.from_ms <= ms <= self.to_ms


class Label(NamedTuple):
    x: float
    text: str


class Drawn(NamedTuple):
    """A drawn transaction, or the commits of a minute.

    - `x`, `width`: the pale part, while the transaction is open.
    - `dark_x`, `dark_width`: the dark part, from the decision to the end. The dark part ends at `end_x`, and the page
      draws it at least PREPARE_PX wide.
    - `end_x`: None if the transaction is open. If the transaction is decided but not all markers are written, `end_x`
      is the place of the present time.
    - `tall`: the height that shows the open time, in px.
    - `title`: the whole transaction in words.
    """

    style: str
    x: float
    width: float
    dark_x: float
    dark_width: float
    end_x: float | None
    tall: float
    title: str


class Band(NamedTuple):
    x: float
    width: float
    text: str


class Lanes(NamedTuple):
    """The lanes of the swimlane. `timeout_y`: distance in px of the timeout line from the top of its lane; None if the
    id's transactions never time out, or if the timeout is not known."""

    ticks: tuple[Label, ...]
    now_x: float
    drawn: tuple[Drawn, ...]
    letters: tuple[Label, ...]
    epochs: tuple[Label, ...]
    timeout_y: float | None
    inits: tuple[float, ...]
    bands: tuple[Band, ...]


def axis_of(window: Window, now_ms: int) -> Axis:
    to_ms = -(-now_ms // window.grain_ms) * window.grain_ms
    return Axis(to_ms - window.span_ms, to_ms)


def lanes_of(
    axis: Axis,
    window: Window,
    now_ms: int,
    lives: Sequence[Life],
    inits: Iterable[int],
    producers: Sequence[ProducerRow],
    timeout_ms: int,
) -> Lanes:
    """Returns the lanes. `lives`: oldest first; `producers`: the producer ids of the transactional.id, in any order."""
    shown = [life for life in lives if (life.ended_ms or now_ms) >= axis.from_ms and life.first_ms <= axis.to_ms]
    has_timeout = timeout_ms != TWO_PHASE_TIMEOUT_MS and timeout_ms > 0
    longest = max([timeout_ms if has_timeout else 1, *(_open_ms(life, now_ms) for life in shown)])
    scale = TALL / (longest * HEADROOM)
    drawn = [_draw(life, axis, now_ms, scale) for life in shown]
    middles = [(one.x + one.width / 2, life) for one, life in zip(drawn, shown, strict=True)]
    return Lanes(
        ticks=_ticks(axis, window),
        now_x=axis.x(now_ms),
        drawn=tuple(drawn),
        letters=spaced(Label(x, _letter(life)) for x, life in middles),
        epochs=spaced(Label(x, str(life.epoch)) for x, life in middles if life.epoch is not None and life.epoch >= 0),
        timeout_y=round(TALL - timeout_ms * scale, 1) if has_timeout else None,
        inits=tuple(axis.x(ms) for ms in sorted(inits) if axis.has(ms)),
        bands=bands_of(axis, now_ms, producers),
    )


def spaced(labels: Iterable[Label]) -> tuple[Label, ...]:
    """Returns the labels without those that would touch the label before them. Each label is centred at its `x`."""
    kept: list[Label] = []
    free = float("-inf")
    for label in labels:
        half = 100 * len(label.text) * _CHARACTER_PX / WIDTH_PX / 2
        if label.x - half >= free:
            kept.append(label)
            free = label.x + half + 0.2
    return tuple(kept)


def bands_of(axis: Axis, now_ms: int, producers: Sequence[ProducerRow]) -> tuple[Band, ...]:
    """Returns a band for each producer id of the drawn time. A band ends at the time at which the next producer id was
    first seen; the last band ends now. If the previous producer id had used up its epochs, the text of the band reports
    a routine rotation."""
    ordered = sorted(producers, key=lambda one: (one.first_seen_ms, one.last_seen_ms))
    bands = []
    for number, producer_row in enumerate(ordered):
        until_ms = ordered[number + 1].first_seen_ms if number + 1 < len(ordered) else now_ms
        if until_ms < axis.from_ms or producer_row.first_seen_ms > axis.to_ms:
            continue
        before = ordered[number - 1] if number else None
        text = str(producer_row.producer_id)
        if before is not None and before.last_epoch >= _LAST_EPOCH:
            text += f": rotated, because {before.producer_id} had used up its epochs (routine, no fault)"
        x = axis.x(producer_row.first_seen_ms)
        bands.append(Band(x, round(max(axis.x(until_ms) - x, 0.1), 3), text))
    return tuple(bands)


def _draw(life: Life, axis: Axis, now_ms: int, scale: float) -> Drawn:
    decided_ms = life.prepared_ms if life.prepared_ms is not None else now_ms
    ended_ms = life.ended_ms if life.ended_ms is not None else now_ms
    x, end_x = axis.x(life.first_ms), axis.x(ended_ms)
    is_decided = life.prepared_ms is not None
    folded = life.number > 1
    dark_x = end_x if folded or not is_decided else axis.x(decided_ms)
    return Drawn(
        style=WORDS[life.cause].style if life.cause else "open",
        x=x,
        width=round(max((end_x if folded else axis.x(decided_ms)) - x, 0.05), 3),
        dark_x=dark_x,
        dark_width=round(end_x - dark_x, 3),
        end_x=end_x if is_decided else None,
        tall=round(max(_open_ms(life, now_ms) * scale, 1.5), 1),
        title=_title(life, now_ms),
    )


def _open_ms(life: Life, now_ms: int) -> int:
    if life.prepared_ms is None:
        return max(now_ms - life.first_ms, 0)
    return life.longest_ms or life.open_ms or 0


def _letter(life: Life) -> str:
    if not life.cause:
        return "open"
    letter = WORDS[life.cause].letter or "?"
    return letter if life.number == 1 else f"{letter} x{life.number}"


def _title(life: Life, now_ms: int) -> str:
    def at(ms: int) -> str:
        return words.clock(ms, now_ms)

    if not life.cause:
        return f"open since {at(life.first_ms)}"
    if life.number > 1 and life.prepared_ms is not None and life.ended_ms is not None:
        text = f"{life.number} commits, ended from {at(life.prepared_ms)} to {at(life.ended_ms)}"
        if life.open_ms is not None:
            text += f"; open for {words.fine(life.open_ms)} on average"
        return f"{text}, {words.fine(life.longest_ms)} at most" if life.longest_ms else text
    text = WORDS[life.cause].text
    if life.open_ms is not None:
        text += f", open for {words.fine(life.open_ms)}"
    if life.ended_ms is None:
        return f"{text}; decided {at(life.prepared_ms or life.first_ms)}; its end was not read"
    return f"{text}; ended {at(life.ended_ms)}"


def _ticks(axis: Axis, window: Window) -> tuple[Label, ...]:
    dated = window.step_ms >= 1440 * _MINUTE_MS
    at = [axis.from_ms + number * window.step_ms for number in range(window.steps + 1)]
    return tuple(Label(axis.x(ms), words.exact(ms)[5:16] if dated else words.exact(ms)[11:16]) for ms in at)

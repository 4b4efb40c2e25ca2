"""Counts what was refused, so that it is recorded without filling log and store: the first at once, then sums."""

from __future__ import annotations

from typing import Final, NamedTuple

from service.access.actions import Action
from service.access.slowdown import network_of

FIRST_WINDOW_S: Final = 10.0
LONGEST_WINDOW_S: Final = 3_600.0
_MOST_SENDERS: Final = 100
_OTHERS: Final = "others"


class Refusal(NamedTuple):
    """A refused request. `action`: what was refused, AUTHENTICATE or AUTHORIZE of `service.access.actions`; `who`: the
    name, if it is known."""

    action: Action
    address: str
    who: str
    cluster: str | None
    request: str
    why: str


class Counted(NamedTuple):
    """Refusals of one sender, of which `last` is the newest; `times` of them since the record before."""

    last: Refusal
    times: int


class _Window(NamedTuple):
    until_s: float
    length_s: float
    unsaid: int
    last: Refusal


class Refusals:
    """The refusals of one service, by sender. A sender's first one is returned at once; those after it are summed up,
    over windows that double from 10 s to an hour while they go on."""

    def __init__(self) -> None:
        self._windows: dict[str, _Window] = {}

    def add(self, one: Refusal, now_s: float) -> Counted | None:
        """Returns what is to be recorded now; None: it is in the sum that `due` returns later."""
        key = self._key(one)
        window = self._windows.get(key)
        if window is None:
            self._windows[key] = _Window(now_s + FIRST_WINDOW_S, FIRST_WINDOW_S, 0, one)
            return Counted(one, 1)
        self._windows[key] = window._replace(unsaid=window.unsaid + 1, last=one)
        return None

    def due(self, now_s: float) -> list[Counted]:
        """Returns the sums of the windows that are over, and begins the next ones."""
        found = []
        for key, window in list(self._windows.items()):
            if now_s < window.until_s:
                continue
            if not window.unsaid:
                del self._windows[key]
                continue
            found.append(Counted(window.last, window.unsaid))
            length_s = min(2 * window.length_s, LONGEST_WINDOW_S)
            self._windows[key] = _Window(now_s + length_s, length_s, 0, window.last)
        return found

    def next_s(self) -> float | None:
        """Returns when `due` has something to do next; None: nothing was refused lately."""
        return min((window.until_s for window in self._windows.values()), default=None)

    def _key(self, one: Refusal) -> str:
        key = f"{network_of(one.address)} {one.who}"
        return key if key in self._windows or len(self._windows) < _MOST_SENDERS else _OTHERS

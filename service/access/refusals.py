"""Refused requests: the error of wrong credentials, the wait of addresses that send them, and a count of refusals, so
that each is recorded without filling log and store.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from service.access.actions import Action


class BadCredentials(Exception):
    """The credentials are wrong. The text says what is wrong with them, never what they are."""


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


EACH_S: Final = 0.5
"""Seconds for each wrong answer to an address."""

LONGEST_S: Final = 5.0
"""Seconds that a request waits for its turn; those that would wait longer are turned away at once."""

_MOST_ADDRESSES: Final = 10_000


class Slowdown:
    """Makes addresses that send wrong credentials wait for a turn. Right credentials never wait."""

    def __init__(self) -> None:
        self._free_at: dict[str, float] = {}

    def is_full(self, address: str, now_s: float) -> bool:
        """Returns whether so many wrong ones of this address wait that another one is turned away."""
        return self._free_at.get(self._key(address), 0.0) - now_s > LONGEST_S - EACH_S

    def turn(self, address: str, now_s: float) -> float | None:
        """Takes a turn for a wrong answer. Returns the seconds to wait before it; None: turn it away."""
        if self.is_full(address, now_s):
            return None
        if len(self._free_at) >= _MOST_ADDRESSES:
            self._free_at = {key: at for key, at in self._free_at.items() if at > now_s}
        key = self._key(address)
        self._free_at[key] = max(self._free_at.get(key, 0.0), now_s) + EACH_S
        return self._free_at[key] - now_s

    def _key(self, address: str) -> str:
        key = network_of(address)
        return key if key in self._free_at or len(self._free_at) < _MOST_ADDRESSES else _OTHERS


def network_of(address: str) -> str:
    """Returns what one sender has: an IPv4 address, or the /64 of an IPv6 address."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{IPv6Address(int(parsed) >> 64 << 64)}/64"

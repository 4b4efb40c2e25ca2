"""Refused requests: the error for wrong credentials, the delay for addresses that send them, and counts of refusals, so
that many refusals make few entries in log and audit.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from service.access.actions import Action


class BadCredentials(Exception):
    """The credentials are wrong. The text describes the fault, and never contains the credentials."""


FIRST_WINDOW_S: Final = 10.0
LONGEST_WINDOW_S: Final = 3_600.0
_MOST_SENDERS: Final = 100
_OTHERS: Final = "others"


class Refusal(NamedTuple):
    """A refused request. `action`: what was refused, AUTHENTICATE or AUTHORIZE of `service.access.actions`; `who`: the
    sender's name; "" if not known."""

    action: Action
    address: str
    who: str
    cluster: str | None
    request: str
    why: str


class Counted(NamedTuple):
    """Refusals of one sender: `last` is the newest, `times` their number since the previous record."""

    last: Refusal
    times: int


class _Window(NamedTuple):
    until_s: float
    length_s: float
    unsaid: int
    last: Refusal


class Refusals:
    """The refusals of one service, by sender. The first refusal of a sender is returned at once. Later ones are summed
    up over windows of time. While refusals go on, the windows double in length, from 10 s to an hour."""

    def __init__(self) -> None:
        self._windows: dict[str, _Window] = {}

    def add(self, refusal: Refusal, now_s: float) -> Counted | None:
        """Returns the record to write now; None if `due` will return the refusal in a sum."""
        key = self._key(refusal)
        window = self._windows.get(key)
        if window is None:
            self._windows[key] = _Window(now_s + FIRST_WINDOW_S, FIRST_WINDOW_S, 0, refusal)
            return Counted(refusal, 1)
        self._windows[key] = window._replace(unsaid=window.unsaid + 1, last=refusal)
        return None

    def due(self, now_s: float) -> list[Counted]:
        """Returns the sums of the windows that have ended, and begins new windows."""
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
        """Returns the time at which to call `due` next, on the clock from which `now_s` comes; None if no window is
        open."""
        return min((window.until_s for window in self._windows.values()), default=None)

    def _key(self, refusal: Refusal) -> str:
        key = f"{network_of(refusal.address)} {refusal.who}"
        return key if key in self._windows or len(self._windows) < _MOST_SENDERS else _OTHERS


EACH_S: Final = 0.5
"""Seconds by which each wrong credential delays its own answer, and the next answers to wrong credentials from the same
address."""

LONGEST_S: Final = 5.0
"""Longest delay of an answer, in seconds; requests that would wait longer are turned away at once."""

_MOST_ADDRESSES: Final = 10_000


class Slowdown:
    """Delays the answers to wrong credentials, by address. Right credentials are never delayed. But if the address has
    sent too many wrong ones, a password or token that was not checked lately is refused unchecked, even if it is
    right."""

    def __init__(self) -> None:
        self._free_at: dict[str, float] = {}

    def is_full(self, address: str, now_s: float) -> bool:
        """Returns True if the answer to another request with wrong credentials from this address would be delayed by
        more than LONGEST_S."""
        return self._free_at.get(self._key(address), 0.0) - now_s > LONGEST_S - EACH_S

    def turn(self, address: str, now_s: float) -> float | None:
        """Counts wrong credentials of the address, and returns the seconds to wait before the answer. Returns None, and
        counts nothing, if the request is to be turned away at once."""
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
    """Returns the network that counts as one sender: an IPv4 address (also for an IPv4-mapped IPv6 address), or the /64
    of any other IPv6 address. A text that is no address is returned unchanged."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{IPv6Address(int(parsed) >> 64 << 64)}/64"

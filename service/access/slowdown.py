"""Makes those wait who send wrong credentials: an address gets two answers a second, however many requests it sends."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import Final

EACH_S: Final = 0.5
"""Seconds for each wrong answer to an address."""

LONGEST_S: Final = 5.0
"""Seconds that a request waits for its turn; those that would wait longer are turned away at once."""

_MOST_ADDRESSES: Final = 10_000
_OTHERS: Final = "others"


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

"""The host names and addresses under which the service answers.

By DNS rebinding, a web page can make a browser send requests to any address, even to this machine's loopback. The Host
header of such a request still has the host name of the page, so the service can refuse the request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from typing import Final

_HOST: Final = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
_NAME: Final = re.compile(r"[a-z0-9._-]+")
_WILDCARDS: Final = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


class AllowedHosts:
    """The hosts of one service: the names and addresses of the loopback interface, the address `bound` on which the
    service listens (unless it stands for all interfaces), and `names`."""

    def __init__(self, bound: str, names: Iterable[str] = ()) -> None:
        self._names = {name.lower() for name in names}
        if bound not in _WILDCARDS:
            self._names.add(_plain(bound.lower()))

    def allows(self, host: str, local: str | None) -> bool:
        """Returns whether a request with this Host header may be answered. `local`: the address of this machine that
        the client connected to. This address is allowed too, because a service may listen on every interface."""
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = _plain(found["name"].strip("[]").rstrip(".").lower())
        return name in self._names or is_loopback(name) or (local is not None and name == _plain(local))


def is_loopback(name: str) -> bool:
    """Returns whether the name or address always means this machine."""
    if name == "localhost" or name.endswith(".localhost"):  # RFC 6761: always resolves to loopback
        return True
    return _is_address(name) and ip_address(name).is_loopback


def parse_host(text: str) -> str:
    """Returns a name or an address for `AllowedHosts`. Raises ValueError, with a message of one line, for any other
    text."""
    name = text.strip("[]").rstrip(".").lower()
    if not _NAME.fullmatch(name) and not _is_address(name):
        raise ValueError(f"{text!r} is no host: give a name or an address, without a port")
    return _plain(name)


def _plain(name: str) -> str:
    """Returns an address in its shortest form (an IPv4 address within IPv6 as IPv4), and a name unchanged."""
    if not _is_address(name):
        return name
    address = ip_address(name)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True

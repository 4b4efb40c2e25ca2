"""How many connections the server holds, and which one gives way when there are too many.

A connection waits while its client has not sent a whole request: it is the client's turn. When the places are taken,
the connection that waits for longest gives way, so that whoever sends a request gets in, however many only hold
connections. Connections with a request in work, event streams among them, never give way; they have bounds of their
own.
"""

from __future__ import annotations

import resource
from collections import Counter
from typing import Final, Protocol

MOST: Final = 8_192
"""A connection that only waits takes some 25 KB."""
BACKLOG: Final = 256
"""Connections that wait to be accepted, and that asyncio accepts in a row before any of them can give way."""
_OTHER_FILES: Final = BACKLOG + 256
"""Descriptors that are left for those, the store, Kafka, and files."""


class Connection(Protocol):
    """What the book of connections needs of one. `peer`: the client's address, without its port."""

    peer: str

    def give_way(self) -> None:
        """Closes the connection at once."""


class Connections:
    """The open connections: at most `most`, and at most half of them from one peer, which may be a balancer."""

    def __init__(self, most: int) -> None:
        self.most, self.most_of_peer = most, max(1, most // 2)
        self._open: set[Connection] = set()
        self._of_peer: Counter[str] = Counter()
        self._waiting: dict[Connection, None] = {}  # in the order in which they began to wait

    def add(self, new: Connection) -> bool:
        """Adds a connection, which waits from now on. Returns False if there is no place, and none gives way."""
        of_peer = self._of_peer[new.peer] >= self.most_of_peer
        if of_peer or len(self._open) >= self.most:
            oldest = next((one for one in self._waiting if not of_peer or one.peer == new.peer), None)
            if oldest is None:
                return False
            self.remove(oldest)
            oldest.give_way()
        self._open.add(new)
        self._of_peer[new.peer] += 1
        self._waiting[new] = None
        return True

    def remove(self, one: Connection) -> None:
        """Removes a connection; nothing happens if it is not there, because it gave way."""
        if one in self._open:
            self._open.discard(one)
            self._waiting.pop(one, None)
            self._of_peer[one.peer] -= 1
            if not self._of_peer[one.peer]:
                del self._of_peer[one.peer]

    def set_waiting(self, one: Connection, *, waits: bool) -> None:
        if not waits:
            self._waiting.pop(one, None)
        elif one in self._open:
            self._waiting.setdefault(one)


def most_connections() -> int:
    """Raises this process's limit of open files as far as it may, and returns how many connections fit: MOST, or fewer
    where the limit is low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST + _OTHER_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(16, min(MOST, soft - _OTHER_FILES))

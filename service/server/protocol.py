"""uvicorn's HTTP/1.1 connection, with deadlines: for a request to arrive, and for an answer to be taken.

A connection waits while its client has not sent a whole request: it is the client's turn. When the places are taken,
the connection that waits for longest gives way, so that whoever sends a request gets in, however many only hold
connections. Connections with a request in work, event streams among them, never give way; they have bounds of their
own.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from typing import Any, Final, Protocol

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

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


class HeldConnections:
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


REQUEST_WITHIN_S: Final = 10.0
"""Seconds within which a whole request, its body included, has to arrive."""
TAKEN_WITHIN_S: Final = 30.0
"""Seconds within which a client that does not take its answer has to make room for more of it: 64 KiB."""

_NO_PLACE: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
)
_TOO_LATE: Final = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class BoundedConnection(H11Protocol):
    """One of `connections`."""

    def __init__(
        self,
        connections: HeldConnections,
        *,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.peer = ""
        self._deadline: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None
        self._connections = connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        address = transport.get_extra_info("peername")
        self.peer = str(address[0]) if isinstance(address, tuple) else ""
        super().connection_made(transport)
        if self._connections.add(self):
            self._watch()
        else:
            transport.write(_NO_PLACE)
            transport.close()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP, also behind the head of a request that the application is answering: its own answer
        has no place any more."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started:
                self.transport.close()
                return
        super().send_400_response(msg)

    def _unsupported_upgrade_warning(self) -> None:
        """Says nothing: the request is answered as one that asks for no upgrade (RFC 9110, 7.8). uvicorn's words would
        have the operator install a library."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        self._cancel()
        super().connection_lost(exc)
        # all three lead in a circle: without them a closed connection is freed at once, and leaves no garbage to search
        # for. uvicorn leaves the timer where the peer broke the connection
        self._unset_keepalive_if_required()
        self.cycle = None  # type: ignore[assignment]
        vars(self.transport).pop("_read_ready_cb", None)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writing = self._writing or self.loop.call_later(TAKEN_WITHIN_S, self.give_way)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None

    def give_way(self) -> None:
        self._cancel()
        self.transport.abort()

    def _watch(self) -> None:
        """Starts the deadline of the next request where it is the client's turn, and stops it where it is not."""
        if self.transport.is_closing():
            return
        waits = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        self._connections.set_waiting(self, waits=waits)
        if not waits:
            self._cancel_deadline()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_WITHIN_S, self._expire)

    def _expire(self) -> None:
        self._deadline = None
        received, _ = self.conn.trailing_data
        if self.conn.our_state is h11.IDLE and received:
            self.transport.write(_TOO_LATE)
        self.transport.close()

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cancel(self) -> None:
        self._cancel_deadline()
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None

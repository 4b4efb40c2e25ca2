"""uvicorn's HTTP/1.1 connection, with deadlines for a request to arrive and for an answer to be read.

A connection is waiting while its client has not sent a whole request. When all places are taken, the connection that
has waited longest is closed: it gives way. So a client that sends a request gets a place, even if others hold many
connections open. A connection whose request is being answered never gives way. Event streams last long; their number is
bounded separately.
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
"""Maximum number of connections. A waiting connection takes some 25 KB."""
BACKLOG: Final = 256
"""Maximum number of connections that wait to be accepted. asyncio may accept up to this many in a row, before
`HeldConnections` can close one to make room."""
_OTHER_FILES: Final = BACKLOG + 256
"""Number of file descriptors that are kept free for the backlog, the store, Kafka, and files."""


class Connection(Protocol):
    """A connection as `HeldConnections` uses it. `peer`: the client's address, without its port."""

    peer: str

    def give_way(self) -> None:
        """Closes the connection at once."""


class HeldConnections:
    """The open connections: at most `most`, and at most half of them from one peer, which may be a load balancer."""

    def __init__(self, most: int) -> None:
        self.most, self.most_of_peer = most, max(1, most // 2)
        self._open: set[Connection] = set()
        self._of_peer: Counter[str] = Counter()
        self._waiting: dict[Connection, None] = {}  # in the order in which they began to wait

    def add(self, new: Connection) -> bool:
        """Adds a connection, which waits from now on. Returns False if there is no place, and no connection can give
        way."""
        of_peer = self._of_peer[new.peer] >= self.most_of_peer
        if of_peer or len(self._open) >= self.most:
            oldest = next(
                (connection for connection in self._waiting if not of_peer or connection.peer == new.peer), None
            )
            if oldest is None:
                return False
            self.remove(oldest)
            oldest.give_way()
        self._open.add(new)
        self._of_peer[new.peer] += 1
        self._waiting[new] = None
        return True

    def remove(self, connection: Connection) -> None:
        """Removes a connection. Does nothing if the connection was removed before, when it gave way."""
        if connection in self._open:
            self._open.discard(connection)
            self._waiting.pop(connection, None)
            self._of_peer[connection.peer] -= 1
            if not self._of_peer[connection.peer]:
                del self._of_peer[connection.peer]

    def set_waiting(self, connection: Connection, *, waits: bool) -> None:
        if not waits:
            self._waiting.pop(connection, None)
        elif connection in self._open:
            self._waiting.setdefault(connection)


def most_connections() -> int:
    """Raises this process's limit of open files as far as needed and allowed. Returns the number of connections that
    fit: MOST, or fewer (at least 16) if the limit is low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST + _OTHER_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(16, min(MOST, soft - _OTHER_FILES))


REQUEST_WITHIN_S: Final = 10.0
"""Seconds within which a whole request, its body included, has to arrive."""
TAKEN_WITHIN_S: Final = 30.0
"""Seconds for which a client may leave more than 64 KiB of its answer unread."""

_NO_PLACE: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
)
_TOO_LATE: Final = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class BoundedConnection(H11Protocol):
    """uvicorn's connection with deadlines. `connections`: the open connections, among them this one while it is
    open."""

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
        """Answers 400 to bytes that are not HTTP. If the application is still answering an earlier request, that answer
        is dropped."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started:
                self.transport.close()
                return
        super().send_400_response(msg)

    def _unsupported_upgrade_warning(self) -> None:
        """Logs nothing: the upgrade is ignored (RFC 9110, 7.8). uvicorn's warning would tell the operator to install a
        library."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        self._cancel()
        super().connection_lost(exc)
        # breaks three reference cycles, so that a closed connection is freed at once, without the garbage collector.
        # uvicorn does not cancel the timer if the peer broke the connection
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
        """Starts the deadline of the next request if the client has to send something and no deadline runs yet. Stops
        the deadline if the client has nothing to send."""
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

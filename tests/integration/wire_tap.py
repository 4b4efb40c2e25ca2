"""A listener of a broker's behind which tests stand: it passes on Kafka's frames, and may harm the answers to Fetch."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from tests.helpers.waiting import LIMIT_S

FETCH = 1
_SIZE = struct.Struct(">i")
_REQUEST = struct.Struct(">hhi")  # api key, api version, correlation id
_RESPONSE = struct.Struct(">i")  # correlation id


class WireTap:
    """`with WireTap(port, broker_port, harm)`: what connects to `port` talks to `broker_port`, both on loopback.

    `harm` gets every response to a Fetch, and answers the bytes to send in its place; fewer of them than came end the
    connection.
    """

    def __init__(self, port: int, broker_port: int, harm: Callable[[bytes], bytes]) -> None:
        self._port, self._broker_port, self._harm = port, broker_port, harm
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> WireTap:
        self._server = socket.create_server(("127.0.0.1", self._port))
        self._begin(self._accept)
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        _end(self._server)
        self._threads[0].join(LIMIT_S)
        for connection in self._sockets:
            _end(connection)
        for thread in self._threads:
            thread.join(LIMIT_S)

    def _begin(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client = self._server.accept()[0]
                self._sockets.append(client)
                broker = socket.create_connection(("127.0.0.1", self._broker_port))
                self._sockets.append(broker)
                fetches: set[int] = set()
                self._begin(self._pass_requests, client, broker, fetches)
                self._begin(self._pass_responses, broker, client, fetches)

    def _pass_requests(self, client: socket.socket, broker: socket.socket, fetches: set[int]) -> None:
        with suppress(OSError):
            while frame := _read_frame(client):
                api, _, correlation = _REQUEST.unpack_from(frame)
                if api == FETCH:
                    fetches.add(correlation)
                broker.sendall(_SIZE.pack(len(frame)) + frame)
        _end(broker)

    def _pass_responses(self, broker: socket.socket, client: socket.socket, fetches: set[int]) -> None:
        with suppress(OSError):
            while frame := _read_frame(broker):
                is_fetch = _RESPONSE.unpack_from(frame)[0] in fetches
                sent = self._harm(frame) if is_fetch else frame
                client.sendall(_SIZE.pack(len(frame)) + sent)
                if len(sent) < len(frame):
                    break
        _end(client)


def _end(connection: socket.socket) -> None:
    """Also for whoever waits for it in another thread."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def _read_frame(connection: socket.socket) -> bytes:
    """One message of Kafka's; empty at the end of the connection."""
    head = _read(connection, _SIZE.size)
    return _read(connection, _SIZE.unpack(head)[0]) if head else b""


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (some := connection.recv(size - len(data))):
        data += some
    return data if len(data) == size else b""

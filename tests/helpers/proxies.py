"""Runs proxies in front of real brokers. Each proxy can misbehave. Clients see the addresses of the proxies instead of
those of the brokers."""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Final

from tests.helpers.waiting import LIMIT_S

Misbehaviour = Callable[[bytes], bytes | None]
"""A function that gets a response without its length. It returns the bytes to send instead, with their length, or None
to send nothing."""
Rewrite = Callable[[int, int, bytes], bytes]
"""A function that gets the API key and version of a request, and its response without the length. It returns the
response to send instead. It raises TornAnswer to end the connection in the middle of the response."""

_REQUEST: Final = struct.Struct(">hhi")  # api key, api version, correlation id
_SIZE: Final = struct.Struct(">i")
_FLOOD: Final = random.Random(1).randbytes(1 << 16)


class TornAnswer(Exception):
    """Raised to end the connection in the middle of a response."""


def framed(response: bytes) -> bytes:
    return _SIZE.pack(len(response)) + response


def garbage(response: bytes) -> bytes:
    """Returns a frame with the right length and correlation id, but a random body."""
    return framed(response[:4] + random.Random(2).randbytes(len(response) - 4))


def huge(response: bytes) -> bytes:
    """Returns the start of a frame of 2 GiB, whose rest is never sent."""
    return _SIZE.pack(2**31 - 1) + response


def endless(response: bytes) -> bytes:
    """Returns the start of a frame of 90 MiB, whose rest is never sent."""
    return _SIZE.pack(90 << 20) + response


def flood(response: bytes) -> bytes:
    """Returns the right response. After this response, `Proxies` sends noise until the client closes the connection, or
    until `behave` is called."""
    return framed(response)


def silent(response: bytes) -> None:
    """Returns None, so that nothing is sent."""


class Proxies:
    """One proxy for each broker: `with Proxies({1: "127.0.0.1:9092", …}) as proxies`. `proxies.bootstrap` has the
    addresses of all proxies. `proxies.misbehave(2, garbage)` lasts until `proxies.behave(2)`.

    - `host`: the address on which the proxies listen.
    - `ports`: a mapping from broker to the port of its proxy; the proxy of any other broker gets a free port.
    - `name`: the host that clients see; it must be as long as "127.0.0.1".
    - `rewrite`: changes every response.
    """

    def __init__(
        self,
        brokers: Mapping[int, str],
        *,
        host: str = "127.0.0.1",
        ports: Mapping[int, int] | None = None,
        name: str | None = None,
        rewrite: Rewrite | None = None,
    ) -> None:
        self._rewrite = rewrite
        self._brokers, self._host, self._name, self._ports = dict(brokers), host, name or host, dict(ports or {})
        self._misbehaviour: dict[int, Misbehaviour] = {}
        self._servers: dict[int, socket.socket] = {}
        self._sockets: list[tuple[int, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self.flooded = 0
        """Bytes of noise that were sent."""

    @property
    def bootstrap(self) -> str:
        return ",".join(self.address(node) for node in self._brokers)

    def address(self, node: int) -> str:
        return f"{self._name}:{self.port(node)}"

    def port(self, node: int) -> int:
        return int(self._servers[node].getsockname()[1])

    def misbehave(self, node: int, how: Misbehaviour) -> None:
        self._misbehaviour[node] = how

    def behave(self, node: int) -> None:
        self._misbehaviour.pop(node, None)
        for of, connection in [*self._sockets]:
            if of == node:
                _end(connection)

    def __enter__(self) -> Proxies:
        self._servers = {node: socket.create_server((self._host, self._ports.get(node, 0))) for node in self._brokers}
        self._renamed = {_address(self._brokers[node]): _address(self.address(node)) for node in self._brokers}
        for node in self._brokers:
            self._begin(self._accept, node)
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        for connection in (*self._servers.values(), *(connection for _, connection in self._sockets)):
            _end(connection)
        for thread in self._threads:
            thread.join(LIMIT_S)
        for connection in (*self._servers.values(), *(connection for _, connection in self._sockets)):
            connection.close()

    def _begin(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, node: int) -> None:
        host, _, port = self._brokers[node].partition(":")
        with suppress(OSError):  # closed
            while True:
                client, _ = self._servers[node].accept()
                self._sockets.append((node, client))
                broker = socket.create_connection((host, int(port)))
                self._sockets.append((node, broker))
                asked: dict[int, tuple[int, int]] = {}
                self._begin(self._pass_requests, client, broker, asked)
                self._begin(self._pass_responses, node, broker, client, asked)

    def _pass_requests(self, client: socket.socket, broker: socket.socket, asked: dict[int, tuple[int, int]]) -> None:
        """Passes requests on to the broker. Stores the API key and version of each request in `asked`, keyed by
        correlation id."""
        with suppress(OSError):
            while request := _frame(client):
                api_key, version, correlation_id = _REQUEST.unpack_from(request)
                asked[correlation_id] = api_key, version
                broker.sendall(framed(request))
        _end(broker)

    def _pass_responses(
        self, node: int, broker: socket.socket, client: socket.socket, asked: dict[int, tuple[int, int]]
    ) -> None:
        with suppress(OSError):
            while response := _frame(broker):
                request = asked.pop(_SIZE.unpack_from(response)[0], None)
                if self._rewrite is not None and request is not None:
                    try:
                        response = self._rewrite(*request, response)
                    except TornAnswer:
                        client.sendall(framed(response)[: len(response) // 2])
                        break
                for theirs, ours in self._renamed.items():
                    response = response.replace(theirs, ours)
                how = self._misbehaviour.get(node, framed)
                sent = how(response)
                if sent is not None:
                    client.sendall(sent)
                while how is flood and self._misbehaviour.get(node) is flood:
                    client.sendall(_FLOOD)
                    self.flooded += len(_FLOOD)
        _end(client)


def _address(text: str) -> bytes:
    """Returns HOST:PORT as in the bytes of a Metadata response: the host, directly followed by the port as int32."""
    host, _, port = text.partition(":")
    return host.encode() + _SIZE.pack(int(port))


def _frame(connection: socket.socket) -> bytes:
    """Returns the next message without its length, or an empty one at the end of the connection."""
    head = _read(connection, _SIZE.size)
    return _read(connection, *_SIZE.unpack(head)) if head else b""


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size and (some := connection.recv(size - len(data))):
        data += some
    return bytes(data) if len(data) == size else b""


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)

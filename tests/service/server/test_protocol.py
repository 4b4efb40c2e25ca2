"""Tests of deadlines with real sockets: clients that stop half-way are disconnected, and all others are served."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import struct
import threading
import time
from asyncio import constants
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from service.server import protocol
from service.server.running import Server
from tests.helpers.certificates import Authority
from tests.helpers.waiting import ANSWER_S, wait_for, wait_until_equal
from tests.service.server.receiving import everything

SOON_S = 2.0
REQUEST = b"GET /%s HTTP/1.1\r\nHost: here\r\n\r\n"
LARGE = 20_000_000
RESET = struct.pack("ii", 1, 0)
"""The SO_LINGER value (on, 0 s) with which close() resets a connection."""


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    message = {"more_body": scope["path"] != "/unread"}
    if not message["more_body"]:
        await asyncio.sleep(SOON_S / 4)
    while message.get("more_body"):
        message = await receive()
        if message["type"] == "http.disconnect":
            return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/stream":
        for _ in range(4):
            await send({"type": "http.response.body", "body": b"event", "more_body": True})
            await asyncio.sleep(SOON_S / 2)
    body = bytes(LARGE) if scope["path"] == "/large" else b"fine"
    await send({"type": "http.response.body", "body": body})


class Running(NamedTuple):
    server: Server
    port: int

    def connect(self, sent: bytes = b"") -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_S)
        client.sendall(sent)
        return client

    def connections(self) -> int:
        return len(self.server.server_state.connections)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    with serving(monkeypatch) as running:
        yield running


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch, **more: Any) -> Iterator[Running]:
    monkeypatch.setattr(protocol, "REQUEST_WITHIN_S", SOON_S)
    monkeypatch.setattr(protocol, "TAKEN_WITHIN_S", SOON_S)
    monkeypatch.setattr(constants, "SSL_HANDSHAKE_TIMEOUT", constants.SSL_HANDSHAKE_TIMEOUT)
    listening = socket.create_server(("127.0.0.1", 0))
    server = Server(application, lambda: None, **more)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield Running(server, listening.getsockname()[1])
    server.should_exit = True
    thread.join(ANSWER_S)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b""),
        (b"GET / HTTP/1.1\r\nHost: he", b"HTTP/1.1 408 Request Timeout"),
        (b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 10\r\n\r\nhalf", b""),
        (REQUEST % b"" + b"GET / HT", b"HTTP/1.1 200 OK"),
    ],
    ids=["says nothing", "half a header", "half a body", "half a second request"],
)
def test_a_client_that_stops_within_a_request_is_closed(running: Running, sent: bytes, answer: bytes) -> None:
    assert everything(running.connect(sent))[: len(answer)] == answer


def test_a_malformed_body_is_answered_once(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    """The server answers a malformed body although the application is already handling the request."""
    client = running.connect(b"POST /unread HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
    wait_until_equal(lambda: len(running.server.server_state.tasks), 1, "number of requests being handled")
    client.sendall(b"no length\r\n")
    assert everything(client).startswith(b"HTTP/1.1 400")
    wait_until_equal(lambda: len(running.server.server_state.tasks), 0, "number of requests being handled")
    assert [record for record in caplog.records if record.exc_info] == []


def test_a_requested_upgrade_is_ignored_without_a_log_line(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    client = running.connect(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    assert everything(client).startswith(b"HTTP/1.1 200 OK")
    assert caplog.records == []


def test_a_client_that_begins_no_handshake_is_closed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Authority(tmp_path).issue("localhost"))
    with serving(monkeypatch, ssl_context_factory=lambda *_: context) as running:
        assert everything(running.connect(b"\x16\x03\x01")) == b""


def test_a_client_that_sends_single_bytes_is_closed(running: Running) -> None:
    client = running.connect()

    def drip() -> bool:
        try:
            client.sendall(b"G")
        except (ConnectionResetError, BrokenPipeError):
            return True
        return False

    wait_for(drip, "the connection to be closed")


def test_a_client_that_does_not_take_its_answer_is_closed(running: Running) -> None:
    client = running.connect(REQUEST % b"large")
    client.recv(1)
    wait_until_equal(running.connections, 0, "connections")
    assert len(everything(client)) < LARGE


def test_a_slow_answer_and_a_stream_are_not_closed(running: Running) -> None:
    client = running.connect(REQUEST.replace(b"1.1", b"1.0") % b"stream")
    assert everything(client).endswith(b"eventeventeventeventfine")


def test_a_slow_reader_gets_the_whole_answer(running: Running) -> None:
    client, received = running.connect(REQUEST.replace(b"1.1", b"1.0") % b"large"), 0
    while chunk := client.recv(1_000_000):
        received += len(chunk)
        time.sleep(SOON_S / 100)
    assert received > LARGE


def test_a_connection_is_kept_for_the_next_request(running: Running) -> None:
    client = running.connect()
    for _ in range(3):
        client.sendall(REQUEST % b"")
        received = b""
        while b"fine" not in received:
            received += client.recv(65_536)
        time.sleep(SOON_S / 40)
    client.close()


@pytest.mark.parametrize("breaks", [False, True], ids=["closes", "breaks"])
def test_a_lost_connection_leaves_no_garbage_behind(running: Running, breaks: bool) -> None:
    """A lost connection leaves no reference cycle. A garbage collection of thousands of cycles would stop the server
    for a long time."""

    def left() -> int:
        return sum(isinstance(one, asyncio.Transport) for one in gc.get_objects())

    gc.collect()
    before = left()
    gc.disable()
    try:
        for sent in (b"", b"GET / HTTP/1.1\r\nHost: he", REQUEST % b"") * 10:
            client = running.connect(sent)
            if sent.endswith(b"\r\n\r\n"):
                client.recv(65_536)
            if breaks:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            client.close()
        wait_until_equal(left, before, "number of transports in memory")
    finally:
        gc.enable()

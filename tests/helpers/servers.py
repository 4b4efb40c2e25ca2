"""Runs servers on loopback: our own applications, and servers that send fixed bytes, whatever the request."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from tests.helpers.waiting import ANSWER_S, LIMIT_S


def get_json(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:
        return json.load(answer)


@contextmanager
def serving_app(app: FastAPI, port: int = 0) -> Iterator[str]:
    """Yields the URL of an application that runs in a thread. `port`: 0 for any free port."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    with socket.create_server(("127.0.0.1", port)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@dataclass
class Served:
    """The bytes that every client gets after it has sent something.

    - `more`: further bytes, sent every `then_every_s`. If `then_every_s` is None, the connection ends instead.
    - `is_silent`: True if the server neither sends anything nor closes the connection.
    - `sent`: the number of bytes sent so far.
    """

    first: bytes = b""
    then_every_s: float | None = None
    more: bytes = b""
    is_silent: bool = False
    sent: int = 0
    accepted: int = field(default=0, init=False)


@contextmanager
def serving(
    served: Served, *, host: str = "127.0.0.1", port: int = 0, certificate: Path | None = None
) -> Iterator[str]:
    """Yields the address of a server that sends `served` to every client. With `certificate`, a PEM file with key and
    certificate, the server speaks TLS."""
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    ending = threading.Event()
    clients: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                clients.append(listening.accept()[0])
                served.accepted += 1
                threads.append(threading.Thread(target=_serve, args=(clients[-1], served, context, ending)))
                threads[-1].start()

    with socket.create_server((host, port)) as listening:
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"{host}:{listening.getsockname()[1]}"
        finally:
            ending.set()
            listening.shutdown(socket.SHUT_RDWR)
            accepting.join(LIMIT_S)
            for client in clients:
                with suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join(LIMIT_S)
            for client in clients:
                client.close()


def _serve(client: socket.socket, served: Served, context: ssl.SSLContext | None, ending: threading.Event) -> None:
    if served.is_silent:
        ending.wait(LIMIT_S)
        return
    with suppress(OSError):
        connection = client if context is None else context.wrap_socket(client.dup(), server_side=True)
        with connection:
            if not connection.recv(1 << 16):
                return
            connection.sendall(served.first)
            served.sent += len(served.first)
            while served.then_every_s is not None and not ending.wait(served.then_every_s):
                connection.sendall(served.more)
                served.sent += len(served.more)
            # A socket that is closed with unread bytes resets its connection, and the client may lose the answer.
            client.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass

"""Runs `txnscope …` against a service, as people do at a terminal."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import uvicorn

from service.app import create_app
from service.cli import main

Ask = Callable[..., tuple[int, str, str]]
"""A function from a command and its arguments to exit code, stdout and stderr."""


@contextmanager
def service_of(store_url: str) -> Iterator[str]:
    """Yields the URL of a service of the store, which runs in a thread."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(store_url, "1.2.3"), log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def command_line(url: str, capsys: pytest.CaptureFixture[str]) -> Ask:
    def ask(name: str, *arguments: str) -> tuple[int, str, str]:
        code = main([name, "--url", url, *arguments])
        return code, *capsys.readouterr()

    return ask

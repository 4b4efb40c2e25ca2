"""Runs `txnscope …` commands against a service, as people do in a terminal."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from service.app import create_app
from service.cli import main
from tests.helpers.servers import serving_app

Ask = Callable[..., tuple[int, str, str]]
"""A function that runs a command with its arguments. It returns (exit code, stdout, stderr)."""


def service_of(store_url: str) -> AbstractContextManager[str]:
    """Returns a context manager that runs a service over the store in a thread, and yields its URL."""
    return serving_app(create_app(store_url, "1.2.3"))


def command_line(url: str, capsys: pytest.CaptureFixture[str]) -> Ask:
    def ask(name: str, *arguments: str) -> tuple[int, str, str]:
        code = main([name, "--url", url, *arguments])
        return code, *capsys.readouterr()

    return ask

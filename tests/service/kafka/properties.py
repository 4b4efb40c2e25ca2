"""Loads the client.properties of a test, and returns the error of properties that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.kafka.errors import BadClientConfig
from service.kafka.settings import ClientSettings


def load(folder: Path, text: str | bytes, servers: str | None = "a:9092") -> ClientSettings:
    file = folder / "client.properties"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return ClientSettings.load(servers, file)


def refusal(folder: Path, text: str | bytes, servers: str | None = "a:9092") -> str:
    """Returns the error of refused properties, without the name of their file."""
    with pytest.raises(BadClientConfig, match=r"^[^\n]*$") as refused:
        load(folder, text, servers)
    return str(refused.value).removeprefix(f"client properties {folder}/client.properties: ")

"""Parses a file as java.util.Properties does."""

from __future__ import annotations

from pathlib import Path

import javaproperties


def read(path: Path) -> dict[str, str]:
    """Returns the keys and values of a file; of a key that is there twice, the last value. Raises ValueError with a
    text that names the file.

    Text may also be UTF-8, with or without a byte order mark. Java takes it for ISO 8859-1.
    """
    try:
        raw = path.read_bytes()
    except OSError as e:
        raise ValueError(f"{path}: {e.strerror}") from e
    if b"\0" in raw:
        raise ValueError(f"{path}: not a text file")
    try:
        return javaproperties.loads(_decoded(raw))
    except javaproperties.InvalidUEscapeError as e:
        raise ValueError(f"{path}: {e}") from e


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")

"""Broker segment files that a command line names, one by one or by their directory."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import cast

from service.cli.errors import CommandFailed


def segments(path: Path) -> list[Path]:
    """The file, or those of a directory in the order of their offsets. CommandFailed: there is none."""
    try:
        if not path.is_dir():
            return [path]
        found = sorted(path.glob("*.log"))
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror or error}") from None
    if not found:
        raise CommandFailed(f"{path}: no .log file in this directory")
    return found


def map_file(path: Path) -> bytes:
    """Mapped, not read: a segment holds a gigabyte by default. Slices of a map are bytes, all that decoders ask for.

    CommandFailed: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return cast(bytes, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) if file.seek(0, 2) else b""
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror or error}") from None

"""Detects that the file of a SQLite store was deleted, replaced or damaged.

SQLite itself continues to use a deleted or replaced file, and everything that it writes there is lost. Two calls of
stat (1.5 µs) at the beginning of every transaction detect this.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote

_WAL: Final = "-wal"
_SEEN: Final = "txnscope_file"

DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""SQLite's primary result codes for a damaged file."""


class FileSeen(NamedTuple):
    """The identities (device, inode) of a store's file and of its write-ahead log; None: the file does not exist."""

    main: tuple[int, int] | None
    wal: tuple[int, int] | None


class StoreFile:
    """The file of one store, shared by all engines of this process. Once damage is noted, the file counts as damaged
    until the file or its write-ahead log is replaced. The write-ahead log matters, because a sound file without its log
    looks damaged, too."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._damaged: int | None = None
        self._log_then: tuple[int, int] | None = None
        self._damage = ""

    def uri(self, *, may_create: bool) -> str:
        """Returns the URI with which SQLite opens the file; without `may_create`, SQLite never creates it."""
        return f"file:{quote(self.path)}?mode={'rwc' if may_create else 'rw'}"

    def create(self) -> None:
        """Creates the file, if it is missing, so that only its owner may access it: SQLite would let everybody read it.
        SQLite gives -wal and -shm the same mode. Errors are ignored, because SQLite reports them when it opens the
        file."""
        with suppress(OSError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))

    def is_there(self) -> bool:
        return _identity(self.path) is not None

    def note_opened(self, info: dict[Any, Any]) -> FileSeen:
        """Writes the identity of the file that a connection has just opened to the connection's dictionary `info`, and
        returns the identity."""
        seen = FileSeen(_identity(self.path), None)
        info[_SEEN] = seen
        return seen

    def change(self, info: dict[Any, Any]) -> str | None:
        """Returns a text about the change of the file since the connection opened it; None if the file at the path is
        still the file that the connection opened."""
        seen: FileSeen = info[_SEEN]
        now = FileSeen(_identity(self.path), _identity(self.path + _WAL))
        if now.main != seen.main:
            return "its file was deleted" if now.main is None else "its file was replaced by another one"
        if seen.wal is None:  # the log comes with the first transaction
            info[_SEEN] = now
        elif now.wal != seen.wal:
            return f"its {_WAL} file was deleted or replaced"
        return None

    def note_damage(self, text: str) -> None:
        if self.damage() is not None:
            return
        before, self._damaged = self._damaged, None
        self._damage, self._log_then = text, _identity(self.path + _WAL)
        if before is not None:
            os.close(before)
        with suppress(OSError):  # the file is gone already
            # keeps the inode from being reused for a new file. Closing an O_PATH descriptor, unlike closing others,
            # releases no lock of this process
            self._damaged = os.open(self.path, os.O_PATH | os.O_CLOEXEC)

    def damage(self) -> str | None:
        """Returns the error that showed that the present file is damaged; None if no such error occurred."""
        if self._damaged is None or self._log_then != _identity(self.path + _WAL):
            return None
        damaged = os.fstat(self._damaged)
        return self._damage if (damaged.st_dev, damaged.st_ino) == _identity(self.path) else None


@lru_cache(maxsize=1024)
def store_file(path: str) -> StoreFile:
    """Returns this process's one `StoreFile` for the path."""
    return StoreFile(path)


def is_damaged(error: BaseException) -> bool:
    """Returns whether SQLite's error means that the file is damaged or is no database."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in DAMAGED


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - a Path takes five times as long
    except OSError:
        return None
    return found.st_dev, found.st_ino

"""Windows that were read, in one file for all workers of a machine: Spark gives a task to any of them, and ends those
that were idle for a while. A cache: what is not in it is read again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from spark_jobs.source.window import Window

MOST: Final = 20_000
"""So many windows are kept, those that were read into last."""

_WAIT_S: Final = 2.0
_CREATE = """CREATE TABLE IF NOT EXISTS windows (
    number INTEGER PRIMARY KEY, topic_id TEXT, partition INTEGER, last_stable_offset INTEGER, window TEXT,
    UNIQUE (topic_id, partition))"""
_FIND = "SELECT window FROM windows WHERE topic_id = ? AND partition = ? AND last_stable_offset = ?"
_KEEP = "INSERT OR REPLACE INTO windows (topic_id, partition, last_stable_offset, window) VALUES (?, ?, ?, ?)"
_FORGET = "DELETE FROM windows WHERE number <= (SELECT max(number) FROM windows) - ?"


class Key(NamedTuple):
    topic_id: str
    partition: int
    last_stable_offset: int


class KeptWindows:
    """Of each partition the one at its newest LSO. `path`: a file in a directory that lives as long as the query."""

    def __init__(self, path: str, most: int = MOST) -> None:
        self._path, self._most = path, most
        self._file: sqlite3.Connection | None = None

    def find(self, keys: Iterable[Key]) -> dict[Key, Window]:
        """Those that are there."""
        found = {}
        try:
            file = self._opened()
            for key in keys:
                if row := file.execute(_FIND, key).fetchone():
                    found[key] = Window.load(row[0])
        except sqlite3.Error:
            self._keep_for_itself()
        return found

    def keep(self, windows: Mapping[Key, Window]) -> None:
        if not windows:
            return
        try:
            with self._opened() as file:
                file.executemany(_KEEP, [(*key, window.dump()) for key, window in windows.items()])
                file.execute(_FORGET, (self._most,))
        except sqlite3.Error:
            self._keep_for_itself()

    def _opened(self) -> sqlite3.Connection:
        if self._file is None:
            self._file = sqlite3.connect(self._path, timeout=_WAIT_S)
            self._file.execute("PRAGMA synchronous = OFF")  # it need not survive the machine
            self._file.execute(_CREATE)
        return self._file

    def _keep_for_itself(self) -> None:
        """Without a file that can be used, a worker still need not read again what it has read."""
        if self._file is not None:
            self._file.close()
        self._path, self._file = ":memory:", None

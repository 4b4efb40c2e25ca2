"""A window of batch headers that begins at an LSO: the writer of its first batch, its open entries, and its size. The
workers of a machine share windows in a file, because Spark gives a task to any worker."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from service.domain.partitions.facts import EPOCH_NOT_REPORTED, FirstBatch, OpenEntry
from service.wire.batches import HEADER_SIZE, LENGTH_END, BatchHeader
from service.wire.header_columns import read_headers


@dataclass(slots=True)
class Window:
    """Batch headers from the LSO on. The batches below `next_offset` were read. `size`: the bytes of these batches.
    `is_broken`: True if the bytes at `next_offset` are no batch, so that nothing behind them can be read."""

    next_offset: int
    size: int = 0
    first: FirstBatch | None = None
    is_broken: bool = False
    _open: dict[int, OpenEntry] = field(default_factory=dict)

    def extend(self, data: bytes) -> None:
        """Extends the window by the bytes that a Fetch from `next_offset` returned. The bytes may begin before that
        offset, and end within a batch."""
        before = self.next_offset
        for header in read_headers(data):
            if header.next_offset <= self.next_offset:
                continue
            if self.first is None:
                self.first = _first(header)
            self.next_offset = header.next_offset
            self.size += LENGTH_END + header.length
            if header.is_transactional:
                self._follow(header)
        self.is_broken = len(data) >= HEADER_SIZE and self.next_offset == before

    def entries(self, *, is_whole: bool) -> tuple[OpenEntry, ...]:
        """Returns the transactions that are open at the end of the window. Their numbers of records and bytes are None
        unless the window `is_whole`."""
        found = self._open.values()
        return tuple(found if is_whole else (entry._replace(records=None, bytes=None) for entry in found))

    def dump(self) -> str:
        return json.dumps([self.next_offset, self.size, self.first, self.is_broken, [*self._open.values()]])

    @classmethod
    def load(cls, text: str) -> Window:
        """Returns the window from which `dump` made `text`."""
        next_offset, size, first, is_broken, entries = json.loads(text)
        found = {entry.producer_id: entry for entry in map(OpenEntry._make, entries)}
        return cls(next_offset, size, None if first is None else FirstBatch._make(first), is_broken, found)

    def _follow(self, header: BatchHeader) -> None:
        known = self._open.get(header.producer_id)
        if header.is_control:  # a marker; one of a lower epoch ends nothing, because brokers refuse it
            if known is not None and header.producer_epoch >= known.producer_epoch:
                del self._open[header.producer_id]
            return
        size = LENGTH_END + header.length
        if known is None:
            known = OpenEntry(
                header.producer_id,
                header.producer_epoch,
                header.base_offset,
                EPOCH_NOT_REPORTED,
                header.max_timestamp_ms,
                0,
                0,
            )
        self._open[header.producer_id] = known._replace(
            producer_epoch=header.producer_epoch,
            last_timestamp_ms=max(known.last_timestamp_ms, header.max_timestamp_ms),
            records=(known.records or 0) + header.records_count,
            bytes=(known.bytes or 0) + size,
        )


def _first(header: BatchHeader) -> FirstBatch:
    return FirstBatch(
        header.base_offset,
        header.producer_id,
        header.producer_epoch,
        header.is_transactional,
        header.is_control,
        header.base_timestamp_ms,
        header.max_timestamp_ms,
    )


MAX_WINDOWS: Final = 20_000
"""Maximum number of windows in the file. The windows that were extended last are kept."""


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


class WindowCache:
    """Keeps windows (`Window`) in a file: for each partition, the window from the partition's newest LSO on. The file
    has at most `max_windows` windows. `path`: a file in a directory that is removed at the end of the query."""

    def __init__(self, path: str, max_windows: int = MAX_WINDOWS) -> None:
        self._path, self._max_windows = path, max_windows
        self._file: sqlite3.Connection | None = None

    def find(self, keys: Iterable[Key]) -> dict[Key, Window]:
        """Returns the windows of `keys` that are in the file."""
        found = {}
        try:
            file = self._opened()
            for key in keys:
                if row := file.execute(_FIND, key).fetchone():
                    found[key] = Window.load(row[0])
        except sqlite3.Error:
            self._use_memory()
        return found

    def keep(self, windows: Mapping[Key, Window]) -> None:
        if not windows:
            return
        try:
            with self._opened() as file:
                file.executemany(_KEEP, [(*key, window.dump()) for key, window in windows.items()])
                file.execute(_FORGET, (self._max_windows,))
        except sqlite3.Error:
            self._use_memory()

    def _opened(self) -> sqlite3.Connection:
        if self._file is None:
            self._file = sqlite3.connect(self._path, timeout=_WAIT_S)
            self._file.execute("PRAGMA synchronous = OFF")  # the file need not survive a crash of the machine
            self._file.execute(_CREATE)
        return self._file

    def _use_memory(self) -> None:
        """Switches to memory when the file cannot be used, so that a worker does not read the same bytes again."""
        if self._file is not None:
            self._file.close()
        self._path, self._file = ":memory:", None

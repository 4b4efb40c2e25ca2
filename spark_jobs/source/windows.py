"""Reads windows of headers from LSOs on, every byte at most once, and says who is open there."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from service.domain.partitions.facts import NOT_TOLD, FirstBatch, OpenEntry
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.fetch import FetchedAt, Wanted, fetch_many
from service.wire.batches import HEADER_SIZE, LENGTH_END, BatchHeader
from service.wire.header_columns import read_headers
from spark_jobs.source.requests import StalledAsk


@dataclass(slots=True)
class Window:
    """From the LSO to `next_offset`, as far as it was read; `size` bytes lie there. `is_broken`: no reading on."""

    next_offset: int
    size: int = 0
    first: FirstBatch | None = None
    is_broken: bool = False
    _open: dict[int, OpenEntry] = field(default_factory=dict)

    def extend(self, data: bytes) -> None:
        """By what a Fetch from `next_offset` gave; it may begin before it and end within a batch."""
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
        """The transactions that were open where the window ends; how much they wrote only if that is all."""
        found = self._open.values()
        return tuple(found if is_whole else (one._replace(records=None, bytes=None) for one in found))

    def dump(self) -> str:
        return json.dumps([self.next_offset, self.size, self.first, self.is_broken, [*self._open.values()]])

    @classmethod
    def load(cls, text: str) -> Window:
        """What `dump` gave."""
        next_offset, size, first, is_broken, entries = json.loads(text)
        found = {entry.producer_id: entry for entry in map(OpenEntry._make, entries)}
        return cls(next_offset, size, None if first is None else FirstBatch._make(first), is_broken, found)

    def _follow(self, header: BatchHeader) -> None:
        known = self._open.get(header.producer_id)
        if header.is_control:  # a marker; one of a lower epoch is refused by brokers and closes nothing
            if known is not None and header.producer_epoch >= known.producer_epoch:
                del self._open[header.producer_id]
            return
        size = LENGTH_END + header.length
        if known is None:
            known = OpenEntry(
                header.producer_id,
                header.producer_epoch,
                header.base_offset,
                NOT_TOLD,
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


SMALL: Final = 1 << 20
"""Bytes of one partition that are read to know how much lies there."""
LARGE: Final = 8 << 20
"""The same where only batches tell who is open: brokers before Kafka 2.8, or no permission to ask them."""
BUDGET: Final = 32 << 20
"""Bytes that one task fetches, about; the next one goes on."""

_FIRST_ROUNDS: Final = ((16 << 10, 256), (2 << 20, 4), (8 << 20, 1))
_MORE_ROUNDS: Final = ((256 << 10, 32), (2 << 20, 4), (8 << 20, 1))
"""(bytes of each partition, partitions at once): a batch comes whole or not at all, unless it is the first one of all
(KIP-74), so those that did not fit are asked for again with more room, and in the end alone."""
_RESPONSE_BYTES: Final = 8 << 20
_TIMEOUT_MS: Final = 5_000
_NOTHING: Final = (0, False)


@dataclass(slots=True)
class Read:
    """What is known of one ask. `window` None: nothing lies at the LSO any more, or it could not be read: `why`.

    `has_moved`: the LSO is another one by now.
    """

    window: Window | None
    why: str | None = None
    has_moved: bool = False


class Windows:
    """Those of one cluster; kept per (topic id, partition, LSO), and extended while the high watermark moves on."""

    def __init__(self, kept: KeptWindows) -> None:
        self._kept = kept

    def read(
        self, client: KafkaClient, node: int, asks: Sequence[StalledAsk], limits: Mapping[StalledAsk, int]
    ) -> dict[StalledAsk, Read]:
        """Of all `asks`, which `node` leads, up to so many bytes each. Raises KafkaUnavailable or KafkaRefused; what
        was read until then is kept."""
        known = self._kept.find(_key(ask) for ask in asks)
        before = {key: _progress(window) for key, window in known.items()}
        reads = {ask: Read(_window(ask, known)) for ask in asks}
        try:
            self._fetch(client, node, reads, limits)
        finally:
            windows = {_key(ask): read.window for ask, read in reads.items()}
            self._kept.keep({key: w for key, w in windows.items() if w and _progress(w) != before.get(key, _NOTHING)})
        return reads

    def _fetch(
        self,
        client: KafkaClient,
        node: int,
        reads: Mapping[StalledAsk, Read],
        limits: Mapping[StalledAsk, int],
    ) -> None:
        fetching = _Fetching(client, node, reads)
        fetching.advance([ask for ask, read in reads.items() if read.window and not read.window.first], _FIRST_ROUNDS)
        more = [*reads]
        while more := [ask for ask in more if _wants_more(ask, reads[ask], limits[ask])]:
            more = fetching.advance(more, _MORE_ROUNDS)
        for read in reads.values():
            if read.window is not None and read.window.first is None:
                read.why = read.why or "the batch at the LSO could not be read"


def _key(ask: StalledAsk) -> Key:
    return Key(ask.topic_id, ask.partition, ask.last_stable_offset)


def _window(ask: StalledAsk, known: Mapping[Key, Window]) -> Window | None:
    """None where retention passed the LSO: there is nothing to fetch."""
    if ask.last_stable_offset < ask.log_start:
        return None
    return known.get(_key(ask)) or Window(ask.last_stable_offset)


def _progress(window: Window) -> tuple[int, bool]:
    """What changes when something was read."""
    return window.size, window.is_broken


def _wants_more(ask: StalledAsk, read: Read, limit: int) -> bool:
    window = read.window
    return (
        window is not None
        and not (window.is_broken or read.why or read.has_moved)
        and window.next_offset < ask.high_watermark
        and window.size < limit
    )


class _Fetching:
    """What one task fetches from one leader."""

    def __init__(self, client: KafkaClient, node: int, reads: Mapping[StalledAsk, Read]) -> None:
        self._client, self._node, self._reads = client, node, reads
        self._spent = 0

    @property
    def has_room(self) -> bool:
        return self._spent < BUDGET

    def advance(self, asks: Sequence[StalledAsk], rounds: Sequence[tuple[int, int]]) -> list[StalledAsk]:
        """One step for each of `asks`, if there is room: those that came further."""
        todo = list(asks)
        came: list[StalledAsk] = []
        for size, at_once in rounds:
            empty = []
            for begin in range(0, len(todo), at_once):
                if not self.has_room:
                    return came
                for ask, answer in self._fetch(todo[begin : begin + at_once], size):
                    if self._take(ask, answer):
                        came.append(ask)
                    elif not answer.error:
                        empty.append(ask)
            todo = empty
        return came

    def _fetch(self, asks: Sequence[StalledAsk], size: int) -> Iterator[tuple[StalledAsk, FetchedAt]]:
        wanted: dict[str, list[Wanted]] = {}
        for ask in asks:
            window = self._reads[ask].window
            assert window is not None
            wanted.setdefault(ask.topic, []).append(Wanted(ask.partition, window.next_offset, ask.leader_epoch, size))
        asked = {(ask.topic, ask.partition): ask for ask in asks}
        for answer in fetch_many(self._client, self._node, wanted, _RESPONSE_BYTES, 0, _TIMEOUT_MS):
            self._spent += len(answer.records)
            yield asked[answer.topic, answer.partition], answer

    def _take(self, ask: StalledAsk, answer: FetchedAt) -> bool:
        """Whether the window is larger now."""
        read = self._reads[ask]
        if answer.error == errors.OFFSET_OUT_OF_RANGE:
            read.window = None
        elif answer.error == errors.TOPIC_AUTHORIZATION_FAILED:
            read.why = errors.no_permission(ask.topic, "READ")
        elif answer.error:
            read.why = f"broker {self._node} answers a fetch with error {answer.error}"
        elif answer.last_stable_offset != ask.last_stable_offset:
            read.has_moved = True
        elif read.window is not None and answer.records:
            read.window.extend(answer.records)
            return not read.window.is_broken
        return False


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

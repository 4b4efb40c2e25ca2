"""What the headers of batches from an LSO on tell: who wrote the first one, who is open, how much lies there. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from service.domain.partitions.facts import NOT_TOLD, FirstBatch, OpenEntry
from service.wire.batches import HEADER_SIZE, LENGTH_END, BatchHeader
from service.wire.headers import read_headers


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

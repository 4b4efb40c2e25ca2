"""What became of the offsets of a partition: its batches in, spans of one transaction and one fate out. Pure.

A marker of a producer id ends all that this id wrote before it (`ProducerAppendInfo`): reading has to go on behind the
offsets asked for, until the marker of every transaction among them was seen. Nothing before them has to be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
OPEN: Final = "open"
HANGING: Final = "hanging"
NON_TRANSACTIONAL: Final = "non_transactional"
MARKER: Final = "marker"
GAP: Final = "gap"
UNKNOWN: Final = "unknown"

COMMIT: Final = "COMMIT"
ABORT: Final = "ABORT"

MOST_SPANS: Final = 2_000

_FATES: Final = {COMMIT: COMMITTED, ABORT: ABORTED, None: UNKNOWN}


class Piece(NamedTuple):
    """A batch: offsets [first, next), also those whose records compaction took. `marker`: of a control batch COMMIT or
    ABORT, None where compaction emptied it (or it is about something else). `timestamp_ms`: of the marker.
    """

    first: int
    next: int
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    is_control: bool = False
    marker: str | None = None
    timestamp_ms: int = -1


class Span(NamedTuple):
    """Offsets [first, next) of one kind. `marker`, `marker_offset`, `ended_ms`: of the marker that ended it, or of the
    marker itself. None where there is nothing to tell.
    """

    first: int
    next: int
    kind: str
    producer_id: int | None = None
    producer_epoch: int | None = None
    marker: str | None = None
    marker_offset: int | None = None
    ended_ms: int | None = None


@dataclass(slots=True)
class _Part:
    """A span that grows. `begin`: where its first batch begins, be it before the offsets asked for."""

    begin: int
    first: int
    next: int
    kind: str | None
    producer_id: int = -1
    producer_epoch: int = -1
    marker: str | None = None
    marker_offset: int | None = None
    ended_ms: int | None = None


class SpanWalk:
    """Takes pieces in the order of the log, from the one that holds `offset` on, until it `is_done` or the log ends."""

    def __init__(self, offset: int, to: int, most_spans: int = MOST_SPANS) -> None:
        """Of the offsets [offset, to), `to` above `offset`."""
        self.to = to
        self.next = offset
        self._most_spans = most_spans
        self._is_torn = False
        self._parts: list[_Part] = []
        self._waiting: dict[int, list[_Part]] = {}

    @property
    def is_done(self) -> bool:
        """All offsets are seen and no transaction among them waits for its marker."""
        return self.next >= self.to and not self._waiting

    @property
    def waiting(self) -> dict[int, int]:
        """Producer ids whose marker has not come yet, and where what is seen of their transactions begins."""
        return {producer_id: parts[0].begin for producer_id, parts in self._waiting.items()}

    def take(self, piece: Piece) -> None:
        """Pieces that lie before what was taken already change nothing."""
        if piece.next <= self.next and self.next < self.to:
            return
        if self.next < self.to:
            self.leave_out(piece.first)
        if piece.first < self.to and self.next < self.to:
            self._add(piece)
        elif piece.is_control:
            self._end(piece)

    def leave_out(self, until: int) -> None:
        """The log does not hold the offsets up to there (also where a batch that begins before it does)."""
        until = min(until, self.to)
        if until > self.next:
            self._parts.append(_Part(self.next, self.next, until, UNKNOWN if self._is_torn else GAP))
            self.next = until
        self._is_torn = False

    def tear(self) -> None:
        """Bytes that cannot be read lie here: nobody knows which offsets are theirs, nor whose marker they may be."""
        self._is_torn = True
        for parts in self._waiting.values():
            for part in parts:
                part.kind = UNKNOWN
        self._waiting.clear()

    def is_open(self, producer_id: int) -> None:
        """Its transaction is known to be open: its marker need not be looked for."""
        for part in self._waiting.pop(producer_id, ()):
            part.kind = OPEN

    def end(self, end: int, last_stable_offset: int, *, is_whole: bool) -> None:
        """No more pieces. `is_whole`: the log was read to its end (the high watermark); else to `end`.

        Below the LSO everything is decided. Without a marker there the marker is gone: compaction takes it when no
        record of its transaction is left.
        """
        if self.next < self.to:
            self.leave_out(end)
        for parts in self._waiting.values():
            is_open = any(
                last_stable_offset < part.next if is_whole else part.begin <= last_stable_offset < part.next
                for part in parts
            )
            for part in parts:
                part.kind = OPEN if is_open else UNKNOWN
        self._waiting.clear()

    def spans(self, hanging: Mapping[int, int]) -> list[Span]:
        """In order, without holes. `hanging`: where a transaction is known to hang, by its producer id."""
        return [self._span(part, hanging) for part in self._parts]

    def _add(self, piece: Piece) -> None:
        part = self._parts[-1] if self._parts else None
        until = min(piece.next, self.to)
        if part is None or piece.is_control or not _goes_on(part, piece):
            if len(self._parts) >= self._most_spans:
                self.to = self.next
                self.take(piece)
                return
            part = _Part(piece.first, self.next, until, None, piece.producer_id, piece.producer_epoch)
            self._parts.append(part)
            if piece.is_control:
                part.kind = MARKER
                part.marker, part.marker_offset, part.ended_ms = piece.marker, piece.first, piece.timestamp_ms
                self._end(piece)
            elif piece.is_transactional:
                self._waiting.setdefault(piece.producer_id, []).append(part)
            else:
                part.kind = NON_TRANSACTIONAL
        part.next = self.next = until

    def _end(self, piece: Piece) -> None:
        for part in self._waiting.pop(piece.producer_id, ()):
            part.kind = _FATES[piece.marker]
            part.marker, part.marker_offset, part.ended_ms = piece.marker, piece.first, piece.timestamp_ms

    @staticmethod
    def _span(part: _Part, hanging: Mapping[int, int]) -> Span:
        kind = part.kind or UNKNOWN
        if kind in (OPEN, UNKNOWN) and part.marker_offset is None and part.producer_id >= 0:
            start = hanging.get(part.producer_id)
            kind = kind if start is None or part.begin < start else HANGING
        has_producer = part.producer_id >= 0
        return Span(
            part.first,
            part.next,
            kind,
            part.producer_id if has_producer else None,
            part.producer_epoch if has_producer else None,
            part.marker,
            part.marker_offset,
            part.ended_ms,
        )


def _goes_on(part: _Part, piece: Piece) -> bool:
    """Whether a data batch is of the same transaction, or of the same producer without any, as what lies before it."""
    if (part.producer_id, part.producer_epoch) != (piece.producer_id, piece.producer_epoch):
        return False
    return part.kind is None if piece.is_transactional else part.kind == NON_TRANSACTIONAL

"""Builds spans of a partition's offsets from the partition's batches. A span has one SpanKind, such as `committed`, and
at most one transaction. Pure.

A marker of a producer id ends all records of this producer id in front of the marker (`ProducerAppendInfo`). So the log
is read beyond the requested offsets, until the markers of all their transactions were seen. Offsets before the
requested ones are read only near the start of a log (HEAD)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from service.domain.partitions.aborted_run import AbortedRun, OnlyAborted
from service.domain.partitions.facts import BatchOffsets, MarkerType


class SpanKind(StrEnum):
    """The kinds of offset ranges, in the words of the API."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    HANGING = "hanging"
    NON_TRANSACTIONAL = "non_transactional"
    MARKER = "marker"
    GAP = "gap"
    UNKNOWN = "unknown"


MOST_SPANS: Final = 2_000

HEAD: Final = 100
"""Highest requested offset for which the log is read from offset 0 on, if the log still starts at 0. The batches before
the requested offset show whether a marker ends anything: a topic that was created again begins with markers that end
nothing."""

_FATES: Final = {MarkerType.COMMIT: SpanKind.COMMITTED, MarkerType.ABORT: SpanKind.ABORTED, None: SpanKind.UNKNOWN}


class Span(NamedTuple):
    """Offsets [first, next) of one kind. `marker`, `marker_offset`, `ended_ms`: outcome, offset and time of the marker
    that ended the transaction, or of the span itself if it is a marker; None if there is no marker, or if the marker is
    not known. `ends_nothing`: the span is a marker that ends no record, because no transaction of its producer id was
    open. `marker_epoch`: the producer epoch of the marker. `first_ms`: the earliest timestamp of its data batches, by
    their producer's clock; -1 if not known."""

    first: int
    next: int
    kind: SpanKind
    producer_id: int | None = None
    producer_epoch: int | None = None
    marker: MarkerType | None = None
    marker_offset: int | None = None
    ended_ms: int | None = None
    ends_nothing: bool = False
    marker_epoch: int | None = None
    first_ms: int = -1


@dataclass(slots=True)
class _GrowingSpan:
    """A span to which batches are still added. `begin`: first offset of its first batch, which may lie before the
    requested offsets. `waits`: the span belongs to a transaction whose end is not known yet."""

    begin: int
    span: Span
    waits: bool = False

    def set(self, **fields: Any) -> None:
        self.span, self.waits = self.span._replace(**fields), False

    def continues_with(self, batch: BatchOffsets) -> bool:
        """Returns whether a data batch continues the span: it is of the same transaction or, outside of transactions,
        has the same producer id and epoch. Batches without a producer id count as batches of one producer."""
        if (self.span.producer_id, self.span.producer_epoch) != _producer_of(batch):
            return False
        return self.waits if batch.is_transactional else self.span.kind == SpanKind.NON_TRANSACTIONAL

    def grow(self, until: int, timestamp_ms: int) -> None:
        first_ms = self.span.first_ms
        first_ms = timestamp_ms if first_ms < 0 else min(first_ms, timestamp_ms)
        self.span = self.span._replace(next=until, first_ms=first_ms)


class BatchesBefore:
    """The batches in front of the offsets that are explained. `markers`: a mapping from producer id to its last marker;
    a marker is left out if an offset is missing between the marker and the explained offsets. `is_from_start`: True if
    the batches begin at offset 0, and none is missing."""

    def __init__(self) -> None:
        self.markers: dict[int, BatchOffsets] = {}
        self.is_from_start = True
        self._next = 0

    def add(self, batch: BatchOffsets) -> None:
        if batch.first > self._next:
            self.add_unreadable()
        self._next = max(self._next, batch.next)
        if batch.is_control:
            self.markers[batch.producer_id] = batch

    def add_unreadable(self) -> None:
        self.markers.clear()
        self.is_from_start = False

    def end_at(self, offset: int) -> None:
        """Ends the batches at `offset`, the first offset that is explained."""
        if offset > self._next:
            self.add_unreadable()


class SpanBuilder:
    """Builds spans from batches. Takes the batches in the order of the log, until `is_done` is True or the log ends.
    The first batch contains `offset`, or lies in front of it."""

    def __init__(self, offset: int, to: int, most_spans: int = MOST_SPANS, run_from: int | None = None) -> None:
        """Starts a walk over the offsets [offset, to), with `to` above `offset`. `run_from`: the offset at which the
        run of aborted records begins, if that is not `offset`."""
        self.to = to
        self.next = offset
        self._most_spans = most_spans
        self._follows_unreadable = False
        self._is_whole = offset == 0
        self._parts: list[_GrowingSpan] = []
        self._waiting: dict[int, list[_GrowingSpan]] = {}
        self.has_every_marker = False
        """Valid after `finish`: True if each marker that ends one of the spans was read, or is not in the log."""
        self.before = BatchesBefore()
        self._run = AbortedRun(offset if run_from is None else run_from)
        self.only_aborted: OnlyAborted | None = None
        """The run of aborted records, valid after `finish`; None if there is no such run."""

    @property
    def has_all_spans(self) -> bool:
        """Returns whether all offsets were seen, and the outcome of each transaction among them is known."""
        return self.next >= self.to and not self._waiting

    @property
    def is_done(self) -> bool:
        """Returns whether everything that the spans and the run of aborted records need was read."""
        return self.has_all_spans and self._run.is_done

    @property
    def waiting(self) -> dict[int, int]:
        """Returns the producer ids whose marker has not been seen yet, with the first known offset of their
        transactions."""
        return {producer_id: parts[0].begin for producer_id, parts in self._waiting.items()}

    def add_batch(self, batch: BatchOffsets) -> None:
        """Adds a batch. A batch in front of the requested offsets is added to `before`. A batch whose offsets already
        have a span changes no span."""
        self._run.add_batch(batch)
        if batch.next <= self.next and self.next < self.to:
            if not self._parts:
                self.before.add(batch)
            return
        if not self._parts and self.next < self.to:
            self.before.end_at(min(batch.first, self.next))
        if self.next < self.to:
            self.add_gap(batch.first)
        if batch.first < self.to and self.next < self.to:
            self._add(batch)
        elif batch.is_control:
            self._end_transaction(batch)

    def add_gap(self, until: int) -> None:
        """Notes that the log does not hold the offsets up to `until`, even if a batch that begins before `until`
        contains them (a log start inside a batch)."""
        until = min(until, self.to)
        if until > self.next:
            self._is_whole = False
            kind = SpanKind.UNKNOWN if self._follows_unreadable else SpanKind.GAP
            self._parts.append(_GrowingSpan(self.next, Span(self.next, until, kind)))
            self.next = until
        self._follows_unreadable = False

    def add_unreadable(self) -> None:
        """Notes that unreadable bytes follow: their offsets are unknown, and they may contain the marker of any
        transaction."""
        self._run.add_unreadable(self.next)
        if not self._parts:
            self.before.add_unreadable()
        self._follows_unreadable = True
        self._is_whole = False
        for parts in self._waiting.values():
            for part in parts:
                part.set(kind=SpanKind.UNKNOWN)
        self._waiting.clear()

    def note_last_stable_offset(self, last_stable_offset: int, high_watermark: int) -> None:
        """Notes the LSO and the high watermark that the log's leader reported at the beginning of the walk."""
        self._run.end_at_last_stable_offset(last_stable_offset, high_watermark)

    def mark_open(self, producer_id: int) -> None:
        """Notes that the producer id's transaction is known to be open, so its marker need not be searched for."""
        self._run.mark_open(producer_id)
        for part in self._waiting.pop(producer_id, ()):
            part.set(kind=SpanKind.OPEN)

    def finish(self, end: int, last_stable_offset: int, *, is_whole: bool) -> None:
        """Ends the walk: no more batches follow. `end`: the offset at which reading stopped; `is_whole`: the log was
        read to its end (the high watermark).

        Every transaction below the LSO is decided. If the marker of such a transaction is missing, compaction removed
        the marker once no record of the transaction was left.
        """
        self.has_every_marker = is_whole or not self._waiting
        self.only_aborted = self._run.finish(end, is_whole=is_whole)
        if self.next < self.to:
            self.add_gap(end)
        for parts in self._waiting.values():
            is_open = any(
                last_stable_offset < part.span.next if is_whole else part.begin <= last_stable_offset < part.span.next
                for part in parts
            )
            for part in parts:
                part.set(kind=SpanKind.OPEN if is_open else SpanKind.UNKNOWN)
        self._waiting.clear()

    def spans(self, hanging: Mapping[int, int]) -> list[Span]:
        """Returns the spans, in order, without holes. `hanging`: a mapping from producer id to the start offset of its
        transaction that is known to hang."""
        return [self._span(part, hanging) for part in self._parts]

    def _add(self, batch: BatchOffsets) -> None:
        part = self._parts[-1] if self._parts else None
        until = min(batch.next, self.to)
        if part is None or batch.is_control or not part.continues_with(batch):
            if len(self._parts) >= self._most_spans:
                self.to = self.next
                self.add_batch(batch)
                return
            kind = SpanKind.UNKNOWN if batch.is_transactional else SpanKind.NON_TRANSACTIONAL
            span = Span(self.next, until, kind, *_producer_of(batch))
            part = _GrowingSpan(batch.first, span, waits=batch.is_transactional)
            self._parts.append(part)
            if batch.is_control:
                ends_nothing = self._is_whole and batch.producer_id not in self._waiting
                part.set(kind=SpanKind.MARKER, ends_nothing=ends_nothing, **_marker_of(batch))
                self._end_transaction(batch)
            elif batch.is_transactional:
                self._waiting.setdefault(batch.producer_id, []).append(part)
        self.next = until
        if not batch.is_control:
            part.grow(until, batch.timestamp_ms)

    def _end_transaction(self, batch: BatchOffsets) -> None:
        for part in self._waiting.pop(batch.producer_id, ()):
            part.set(kind=_FATES[batch.marker], **_marker_of(batch))

    @staticmethod
    def _span(part: _GrowingSpan, hanging: Mapping[int, int]) -> Span:
        span = part.span
        start = None if span.producer_id is None else hanging.get(span.producer_id)
        has_no_end = span.kind in (SpanKind.OPEN, SpanKind.UNKNOWN) and span.marker_offset is None
        hangs = has_no_end and start is not None and part.begin >= start
        return span._replace(kind=SpanKind.HANGING) if hangs else span


def _producer_of(batch: BatchOffsets) -> tuple[int | None, int | None]:
    return (batch.producer_id, batch.producer_epoch) if batch.producer_id >= 0 else (None, None)


def _marker_of(batch: BatchOffsets) -> dict[str, Any]:
    """Returns the fields of a span that describe `batch`, the marker that ends the span."""
    return {
        "marker": batch.marker,
        "marker_offset": batch.first,
        "ended_ms": batch.timestamp_ms,
        "marker_epoch": batch.producer_epoch,
    }

"""Sums up a run of aborted records: from an offset on, up to the first record that read_committed consumers get. Pure.

A read_committed consumer gets nothing from the whole run, and its position may stay where it is. The run has a bound of
its own, so it may continue beyond the last span of `offset_spans`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from service.domain.partitions.facts import BatchOffsets, MarkerType


class EndOfRun(StrEnum):
    """The reason why a run of aborted records ends, in the words of the API."""

    READABLE = "readable"
    OPEN = "open"
    LOG_END = "log_end"
    BOUND = "bound"
    UNKNOWN = "unknown"


MOST_PIECES: Final = 100_000
"""Maximum number of pieces of transactions that are kept for one run: some 20 MB. A piece is a sequence of batches of
one transaction without other batches in between."""


class OnlyAborted(NamedTuple):
    """Offsets [first, to) that hold nothing but aborted records, markers and gaps.

    - `records`: the number of aborted records; `transactions`: the number of aborted transactions, keyed by producer
      id.
    - `ended_by`: what is at `to`. READABLE: a record that read_committed consumers get. OPEN: an open transaction, at
      which these consumers wait. LOG_END: the end of the log. BOUND: reading stopped, so the run may go on. UNKNOWN:
      unreadable bytes, or a record whose outcome is not known.
    - `open_producer_id`: the producer id of the open transaction at `to`; None if no transaction is open at `to`, or if
      its records were not read."""

    first: int
    to: int
    records: int
    transactions: dict[int, int]
    ended_by: EndOfRun
    open_producer_id: int | None = None


class _Piece(NamedTuple):
    first: int
    next: int
    records: int
    producer_id: int


class AbortedRun:
    """Builds a run of aborted records from `offset` on. Takes the batches of a log in order, until `is_done` is True or
    the log ends. The first batch contains `offset`, or lies in front of it."""

    def __init__(self, offset: int, most_pieces: int = MOST_PIECES) -> None:
        self._offset = offset
        self._at = offset
        self._most_pieces = most_pieces
        self._end: int | None = None
        self._ended_by = EndOfRun.READABLE
        self._open_producer: int | None = None
        self._pending: dict[int, list[_Piece]] = {}
        self._aborted: list[list[_Piece]] = []
        self._pieces = 0

    @property
    def is_done(self) -> bool:
        """Returns whether the run was read to its end, and the outcome of each transaction in the run is known."""
        end = self._end
        return end is not None and self._at >= end and all(p[0].first >= end for p in self._pending.values())

    def add_batch(self, batch: BatchOffsets) -> None:
        """Adds a batch. Ignores a batch that was added before, or that lies below the first offset of the run; ignores
        every batch once the run is done."""
        if batch.next <= self._at or self.is_done:
            return
        first, self._at = max(batch.first, self._at), batch.next
        if batch.is_control:
            self._end_transaction(batch)
        elif batch.records == 0 or (self._end is not None and first >= self._end):
            return
        elif batch.is_transactional:
            self._wait(batch, first)
        else:
            self._end_at(first, EndOfRun.READABLE)

    def add_unreadable(self, at: int) -> None:
        """Notes that unreadable bytes follow at offset `at`. They may contain the marker of any transaction."""
        waiting = [pieces[0].first for pieces in self._pending.values()]
        self._end_at(min([*waiting, max(at, self._at)]), EndOfRun.UNKNOWN)
        self._pending.clear()

    def mark_open(self, producer_id: int) -> None:
        """Notes that the producer id's transaction is known to be open."""
        if pieces := self._pending.pop(producer_id, None):
            self._end_at(pieces[0].first, EndOfRun.OPEN, producer_id)

    def end_at_last_stable_offset(self, last_stable_offset: int, high_watermark: int) -> None:
        """Ends the run at the LSO at the latest, because read_committed consumers get nothing from the LSO on."""
        by = EndOfRun.OPEN if last_stable_offset < high_watermark else EndOfRun.LOG_END
        self._end_at(max(last_stable_offset, self._offset), by)

    def finish(self, end: int, *, is_whole: bool) -> OnlyAborted | None:
        """Returns the run; None if it holds no aborted record. `end`: the offset at which reading stopped; `is_whole`:
        the log was read to its end."""
        by = EndOfRun.LOG_END if is_whole else EndOfRun.BOUND
        self._end_at(max(end, self._at), by)
        for producer_id, pieces in self._pending.items():
            self._end_at(pieces[0].first, by if by == EndOfRun.BOUND else EndOfRun.OPEN, producer_id)
        to = self._offset if self._end is None else self._end
        inside = [pieces for pieces in self._aborted if pieces[0].first < to]
        if not inside:
            return None
        return OnlyAborted(
            self._offset,
            to,
            sum(min(piece.records, max(to - piece.first, 0)) for pieces in inside for piece in pieces),
            dict(Counter(pieces[0].producer_id for pieces in inside)),
            self._ended_by,
            self._open_producer if self._ended_by == EndOfRun.OPEN else None,
        )

    def _wait(self, batch: BatchOffsets, first: int) -> None:
        pieces = self._pending.setdefault(batch.producer_id, [])
        records = batch.next - first if batch.records is None else min(batch.records, batch.next - first)
        if pieces and pieces[-1].next == first:
            pieces[-1] = pieces[-1]._replace(next=batch.next, records=pieces[-1].records + records)
            return
        pieces.append(_Piece(first, batch.next, records, batch.producer_id))
        self._pieces += 1
        if self._pieces >= self._most_pieces:
            self._end_at(batch.next, EndOfRun.BOUND)

    def _end_transaction(self, batch: BatchOffsets) -> None:
        pieces = self._pending.pop(batch.producer_id, [])
        if not pieces:
            return
        if batch.marker == MarkerType.ABORT:
            self._aborted.append(pieces)
        else:
            self._end_at(pieces[0].first, EndOfRun.READABLE if batch.marker == MarkerType.COMMIT else EndOfRun.UNKNOWN)

    def _end_at(self, offset: int, by: EndOfRun, producer_id: int | None = None) -> None:
        """Ends the run at the offset, unless the run already ends there or below."""
        if self._end is None or offset < self._end:
            self._end, self._ended_by, self._open_producer = offset, by, producer_id


MOST_NAMED: Final = 3
"""Maximum number of owners that a sentence names."""


def only_aborted_text(
    first: int,
    to: int,
    records: int,
    transactions: int,
    owners: Sequence[str],
    more_owners: int,
    ended_by: EndOfRun,
) -> str:
    """Returns one sentence that sums up the run. `owners`: the names of the owners with the most transactions;
    `more_owners`: the number of the other owners."""
    whose = ", ".join(owners[:MOST_NAMED])
    others = more_owners + max(len(owners) - MOST_NAMED, 0)
    if others:
        whose += f" and {others:,} more"
    counted = f"{transactions:,} transaction{'' if transactions == 1 else 's'}"
    held = f"{records:,} record{'' if records == 1 else 's'}"
    return f"Only aborted records from {first:,} to {to - 1:,}: {counted} of {whose}, {held}; {_FOLLOWS[ended_by](to)}"


_FOLLOWS: Final = {
    EndOfRun.READABLE: lambda to: f"the first readable record is at {to:,}.",
    EndOfRun.OPEN: lambda to: (
        f"an open transaction begins at {to:,}: read_committed consumers wait there until it ends."
    ),
    EndOfRun.LOG_END: lambda to: f"the log ends at {to:,}, so read_committed consumers have nothing to read yet.",
    EndOfRun.BOUND: lambda to: f"reading stopped at its bound, and the run may go on from {to:,}.",
    EndOfRun.UNKNOWN: lambda to: f"the outcome of the records from {to:,} on is not known.",
}

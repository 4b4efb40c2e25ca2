"""Data partitions as the store has them: the newest observation and the newest read of each. Also finds out from
batches whether a consumer at an offset has a record left to read."""

from __future__ import annotations

from dataclasses import dataclass

from service.domain.partitions.facts import BatchOffsets, FirstBatch, MarkerType, PartitionObservation
from service.domain.reasons.reason import Reason


@dataclass(frozen=True, slots=True)
class ObservedPartition(PartitionObservation):
    """The newest observation of a partition. If `why` is set, the offsets are those of the answer at `answered_at_ms`;
    if `answered_at_ms` is None, the partition never answered or no longer exists, and the offsets are -1.
    `read_at_ms`: the time of the newest read; None if nothing was read, or the LSO has reached the high watermark
    since."""

    answered_at_ms: int | None = None
    read_at_ms: int | None = None

    def is_free_at(self, ms: int) -> bool:
        """Returns whether the partition answered at `ms` or later with its LSO at the high watermark, so that nothing
        was open."""
        return self._answered_since(ms) and self.last_stable_offset >= self.high_watermark

    def is_past(self, offset: int, ms: int) -> bool:
        """Returns whether the answer shows that a transaction that began at `offset` and was open at `ms` has ended.

        The LSO never passes an open transaction, with one exception: if records of the transaction are deleted, some
        versions of Kafka move the LSO up to the log start."""
        return self._answered_since(ms) and max(offset, self.log_start) < self.last_stable_offset

    def _answered_since(self, ms: int) -> bool:
        return self.answered_at_ms is not None and self.answered_at_ms >= ms


@dataclass(frozen=True, slots=True)
class PartitionState(ObservedPartition):
    """The newest observation of a partition and its newest `StalledRead`.

    `observed_at_ms`: the time of the partition's own observation or, if the partition has not changed since, of the
    last observation of all partitions. Fields `read_lso` to `first`: the newest read, made when the LSO was `read_lso`
    (the LSO may have moved since); None or False if nothing was read."""

    read_lso: int | None = None
    described: bool = False
    is_whole: bool = False
    lag_bytes: int | None = None
    read_why: Reason | None = None
    first: FirstBatch | None = None

    @property
    def answer_ms(self) -> int | None:
        """Returns the time of the newest answer, which contained the offsets; None if the partition never answered."""
        return self.observed_at_ms if self.why is None else self.answered_at_ms

    def first_of(self, producer_id: int, start_offset: int) -> FirstBatch | None:
        """Returns the first batch of the entry that begins at `start_offset`, if that batch was read; else None."""
        is_its_own = self.first is not None and self.first.producer_id == producer_id
        return self.first if is_its_own and start_offset == self.read_lso else None

    @property
    def is_read(self) -> bool:
        """Returns whether the newest read was made at the present LSO."""
        return self.read_at_ms is not None and self.read_lso == self.last_stable_offset

    @property
    def is_complete(self) -> bool:
        """Returns whether the newest read shows all open entries."""
        return self.described or self.is_whole

    @property
    def hidden_records(self) -> int:
        """Returns the number of offsets from the LSO to the high watermark, which read_committed consumers do not get
        yet."""
        return max(self.high_watermark - self.last_stable_offset, 0)

    @property
    def hidden_bytes(self) -> int | None:
        """Returns the number of bytes that read_committed consumers do not see; None unless all of these bytes were
        read at the present LSO."""
        return self.lag_bytes if self.read_lso == self.last_stable_offset else None


class CommittedRecords:
    """Searches [offset, lso) for a record that a read_committed consumer gets: one outside of transactions, or one of a
    committed transaction. `found`: whether there is such a record; None until the added batches show the answer.

    Batches beyond the LSO may be needed, because the marker of a transaction may lie there. Markers and aborted records
    do not count."""

    def __init__(self, offset: int, lso: int) -> None:
        self._offset, self._lso = offset, lso
        self._undecided: set[int] = set()
        self.found: bool | None = None

    def add(self, batch: BatchOffsets, records: int) -> None:
        """Adds the next batch of the log; the first batch contains the offset, or follows it. `records`: the number of
        records in the batch, 0 if compaction removed all."""
        if batch.is_control:
            self._end(batch)
        elif batch.first < self._lso and batch.next > self._offset and records:
            if batch.is_transactional:
                self._undecided.add(batch.producer_id)
            else:
                self.found = True
        if self.found is None and batch.next >= self._lso and not self._undecided:
            self.found = False

    def _end(self, batch: BatchOffsets) -> None:
        if batch.producer_id not in self._undecided:
            return
        if batch.marker == MarkerType.COMMIT:
            self.found = True
        elif batch.marker == MarkerType.ABORT:
            self._undecided.discard(batch.producer_id)


class AnyRecords:
    """Searches for a record at or after `offset` that a read_uncommitted consumer gets. `found`: True as soon as such a
    record was added, None before."""

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self.found: bool | None = None

    def add(self, batch: BatchOffsets, records: int) -> None:
        """Adds the next batch of the log. `records`: as for `CommittedRecords.add`."""
        if not batch.is_control and batch.next > self._offset and records:
            self.found = True

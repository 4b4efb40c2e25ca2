"""Finds out whether a consumer at an offset has a record left to read, from the batches behind the offset. Pure."""

from __future__ import annotations

from service.domain.partitions.batch_offsets import BatchOffsets, MarkerType


class CommittedRecords:
    """Searches [offset, lso) for a record that a read_committed consumer gets: one without a transaction, or of a
    committed one. `found`: True or False; None while the batches so far do not show it.

    Every transaction with records below the LSO is decided; its marker may lie beyond the LSO. Markers and aborted
    records are nothing to read.
    """

    def __init__(self, offset: int, lso: int) -> None:
        self._offset, self._lso = offset, lso
        self._undecided: set[int] = set()
        self.found: bool | None = None

    def add(self, batch: BatchOffsets, records: int) -> None:
        """Adds the next batch of the log, the first of which contains the offset or follows it. `records`: their
        number; compaction leaves batches without any."""
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
    """Searches for a record that a read_uncommitted consumer gets at the offset or behind it. `found`: True, or None
    while there was none."""

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self.found: bool | None = None

    def add(self, batch: BatchOffsets, records: int) -> None:
        """Adds a batch, as CommittedRecords does."""
        if not batch.is_control and batch.next > self._offset and records:
            self.found = True

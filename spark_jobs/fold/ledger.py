"""Headers of tailed partitions to volume by minute and markers: the executors' half of the ledger. Pure."""

from __future__ import annotations

from typing import Final

import numpy as np

from service.domain.partitions.ledger import Marker, Volume
from service.domain.transaction_log.minutes import MINUTE_MS
from service.wire.control import COMMIT
from service.wire.header_columns import HeaderColumns, header_columns, marker_at
from service.wire.log_columns import Chunk
from service.wire.vectors import Bools, Ints

OLDEST_MS: Final = 86_400_000
"""A timestamp older than this when it is read, or yet to come, is no time to count by: a producer may write anything
there, and every minute that is named has a row."""

_SUMS: Final = len(Volume._fields) - 3
_NOTHING, _COMMITTED, _ABORTED = range(3)


class Tail:
    """What was read of the partitions of one topic so far, by partition and minute."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._sums: dict[tuple[int, int], Ints] = {}
        self.markers: list[Marker] = []

    @property
    def volumes(self) -> list[Volume]:
        return [
            Volume(self._topic, partition, minute_ms, *sums.tolist())
            for (partition, minute_ms), sums in sorted(self._sums.items())
        ]

    def add(self, chunk: Chunk, generation: int, now_ms: int) -> tuple[int, int]:
        """Count the batches whose last offset lies in [lo, hi) of the chunk, so that one on a border counts once.

        The offset up to which everything is in here (at most `hi`; `lo`: no whole batch), and how many records.
        """
        found = header_columns(chunk.data)
        if not found.next_offset.size:
            return chunk.lo, 0
        reached = min(int(found.next_offset[-1]), chunk.hi)
        found = found.rows((found.next_offset > chunk.lo) & (found.next_offset <= chunk.hi))
        outcome = self._mark(chunk, found, generation)
        is_data = ~found.is_control
        records = np.where(is_data, found.records, 0)
        transactional = np.where(found.is_transactional, records, 0)
        counted = (records, found.size, transactional, outcome == _COMMITTED, outcome == _ABORTED)
        minutes, row = np.unique(_minutes(found.max_timestamp_ms, now_ms), return_inverse=True)
        sums = np.zeros((len(minutes), _SUMS), np.int64)
        for column, values in enumerate(counted):
            np.add.at(sums[:, column], row, values)
        for minute_ms, some in zip(minutes.tolist(), sums, strict=True):
            key = (chunk.partition, minute_ms)
            self._sums[key] = self._sums[key] + some if key in self._sums else some
        return max(reached, chunk.lo), int(records.sum())

    def _mark(self, chunk: Chunk, found: HeaderColumns, generation: int) -> Ints:
        """What each batch ended; the markers are kept."""
        outcome = np.full(len(found.position), _NOTHING)
        for row in np.flatnonzero(found.is_control).tolist():
            control = marker_at(chunk.data, int(found.position[row]), int(found.size[row]))
            if control is None:
                continue
            is_commit = control.type == COMMIT
            outcome[row] = _COMMITTED if is_commit else _ABORTED
            producer = int(found.producer_id[row]), int(found.producer_epoch[row])
            place = self._topic, chunk.partition, generation, control.offset
            self.markers.append(Marker(*place, *producer, control.coordinator_epoch, is_commit, control.timestamp_ms))
        return outcome


def _minutes(timestamp_ms: Ints, now_ms: int) -> Ints:
    is_time: Bools = (timestamp_ms > now_ms - OLDEST_MS) & (timestamp_ms <= now_ms)
    counted: Ints = np.where(is_time, timestamp_ms, now_ms) // MINUTE_MS * MINUTE_MS
    return counted

"""What decoding a piece of `__transaction_state` gives: one column per field, and what could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from service.wire.transaction_log import Partitions, decode_value

VALUE: Final = 0
TOMBSTONE: Final = 1
UNDECODABLE: Final = 2

RAW_LIMIT: Final = 64 << 10
"""Bytes of a key, value or batch that are kept of what could not be decoded."""


class Chunk(NamedTuple):
    """Bytes as a Fetch of `partition` gave them, of which the offsets [lo, hi) are wanted."""

    partition: int
    lo: int
    hi: int
    data: bytes


class Reject(NamedTuple):
    """A record that could not be decoded: with an id if the value is at fault (the id is then a row of its own)."""

    partition: int
    offset: int
    reason: str
    transactional_id: bytes | None
    key: bytes | None
    value: bytes | None


class BrokenBatch(NamedTuple):
    """A batch of which no record was delivered; fetch it once more before believing it.

    `resume_offset` is where the log goes on behind it, None if its length is wrong and nobody can tell.
    """

    partition: int
    offset: int
    reason: str
    resume_offset: int | None
    raw: bytes


class Slices(NamedTuple):
    """Where byte strings lie in one buffer; a size below 0 is null."""

    data: bytes
    start: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]

    def get(self, row: int) -> bytes | None:
        start, size = int(self.start[row]), int(self.size[row])
        return None if size < 0 else self.data[start : start + size]


@dataclass(frozen=True, slots=True, eq=False)
class LogColumns:
    """One row per record with lo <= offset < hi and a readable key, ordered by (chunk, offset).

    `kind` is VALUE, TOMBSTONE or UNDECODABLE; where it is not VALUE, ids, epochs, times and status are -1, the client
    transaction version and the partition count 0. Times are ms; `timestamp_ms` is the record's own (the largest of the
    batch under LogAppendTime).
    """

    partition: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    timestamp_ms: npt.NDArray[np.int64]
    leader_epoch: npt.NDArray[np.int32]
    kind: npt.NDArray[np.int8]
    producer_id: npt.NDArray[np.int64]
    producer_epoch: npt.NDArray[np.int16]
    timeout_ms: npt.NDArray[np.int32]
    status: npt.NDArray[np.int8]
    last_update_ms: npt.NDArray[np.int64]
    start_ms: npt.NDArray[np.int64]
    client_transaction_version: npt.NDArray[np.int16]
    previous_producer_id: npt.NDArray[np.int64]
    next_producer_id: npt.NDArray[np.int64]
    next_producer_epoch: npt.NDArray[np.int16]
    partition_count: npt.NDArray[np.int32]
    transactional_ids: pa.BinaryArray
    rejects: tuple[Reject, ...]
    """Ordered like the rows."""
    next_offsets: dict[int, int]
    """Per partition the position up to which everything is in here: behind the last whole batch (empty and broken ones
    are progress too, one whose length is wrong is not), at least the smallest lo and at most the largest hi."""
    broken: tuple[BrokenBatch, ...]
    batches: int
    """Whole batches walked over, of any kind."""
    bytes: int
    """Their bytes."""
    values: Slices
    """The raw values of the rows."""

    def __len__(self) -> int:
        return len(self.offset)

    def participants(self, row: int) -> Partitions:
        """(topic, partitions) that take part according to this row; () for every row that is not a VALUE."""
        value = self.values.get(row)
        if value is None or self.kind[row] != VALUE:
            return ()
        return decode_value(value).partitions or ()


def holes(offsets: npt.NDArray[np.int64], lo: int, hi: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns the ranges of [lo, hi) that hold none of these rising offsets: where each begins, and where it ends
    (exclusive)."""
    there = np.concatenate(([lo - 1], offsets, [hi]))
    before = np.flatnonzero(np.diff(there) > 1)
    return there[before] + 1, there[before + 1]

"""The result of decoding a part of `__transaction_state`: one column per field, rejected records, broken batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from service.wire.transaction_log import Partitions, TransactionValue, decode_value
from service.wire.vectors import structs

VALUE: Final = 0
TOMBSTONE: Final = 1
UNDECODABLE: Final = 2

RAW_LIMIT: Final = 64 << 10
"""Maximum number of bytes that are kept of a key, value or batch that could not be decoded."""


class Chunk(NamedTuple):
    """Bytes of `partition` as a Fetch returned them; only the offsets [lo, hi) are wanted."""

    partition: int
    lo: int
    hi: int
    data: bytes


class Reject(NamedTuple):
    """A record that could not be decoded. If the key could be decoded, LogColumns also has a row for the record, with
    its id and the kind UNDECODABLE."""

    partition: int
    offset: int
    reason: str
    transactional_id: bytes | None
    key: bytes | None
    value: bytes | None


class BrokenBatch(NamedTuple):
    """A batch of which no record could be read. Callers fetch the batch once more before they report it as broken.

    `resume_offset`: the offset at which the log continues after the batch; None (unknown) if the batch's length is
    wrong, or if the batch is not the one that was requested.
    """

    partition: int
    offset: int
    reason: str
    resume_offset: int | None
    raw: bytes


class Slices(NamedTuple):
    """Byte strings as positions in one buffer. A string with a size below 0 is null."""

    data: bytes
    start: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]

    def rows(self, chosen: npt.NDArray[Any]) -> Slices:
        """Returns the strings of some rows, in the same buffer. `chosen`: the numbers of the rows, or a mask."""
        return Slices(self.data, self.start[chosen], self.size[chosen])

    def equal(self, wanted: bytes) -> npt.NDArray[np.int64]:
        """Returns the numbers of the rows whose string is `wanted`."""
        rows = np.flatnonzero(self.size == len(wanted))
        if not rows.size or not wanted:
            return rows
        strings = structs(np.frombuffer(self.data, np.uint8), self.start[rows], np.dtype(f"V{len(wanted)}"))
        is_it = strings.view(np.uint8).reshape(len(rows), -1) == np.frombuffer(wanted, np.uint8)
        found: npt.NDArray[np.int64] = rows[is_it.all(axis=1)]
        return found

    def get(self, row: int) -> bytes | None:
        start, size = int(self.start[row]), int(self.size[row])
        return None if size < 0 else self.data[start : start + size]


@dataclass(frozen=True, slots=True, eq=False)
class ValueColumns:
    """The fields of TransactionValue as columns."""

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

    @classmethod
    def blank(cls, rows: int) -> ValueColumns:
        """Returns columns for `rows` rows without a value."""
        return ValueColumns(**{name: np.full(rows, blank, dtype) for name, (blank, dtype) in _BLANKS.items()})

    def by_name(self) -> dict[str, Any]:
        """Returns a mapping from name to column. Leaves out the columns that a subclass of ValueColumns adds."""
        return {name: getattr(self, name) for name in _BLANKS}

    def rows(self, block: slice) -> ValueColumns:
        """Returns views of some rows. Writing to a view changes the columns of this object."""
        return ValueColumns(**{name: column[block] for name, column in self.by_name().items()})

    def put(self, row: int, value: TransactionValue) -> None:
        """Writes one value that the scalar form decoded."""
        for name, column in self.by_name().items():
            column[row] = getattr(value, name)


_BLANKS: Final = {
    "producer_id": (-1, np.int64),
    "producer_epoch": (-1, np.int16),
    "timeout_ms": (-1, np.int32),
    "status": (-1, np.int8),
    "last_update_ms": (-1, np.int64),
    "start_ms": (-1, np.int64),
    "client_transaction_version": (0, np.int16),
    "previous_producer_id": (-1, np.int64),
    "next_producer_id": (-1, np.int64),
    "next_producer_epoch": (-1, np.int16),
    "partition_count": (0, np.int32),
}
"""A mapping from the name of a column of ValueColumns to two values: the number that stands for a missing value in this
column, and the type of the column."""


@dataclass(frozen=True, slots=True, eq=False)
class LogColumns(ValueColumns):
    """One row per record with lo <= offset < hi and a readable key, ordered by (chunk, offset).

    `kind` is VALUE, TOMBSTONE or UNDECODABLE. In a row that is not a VALUE, the columns of ValueColumns are blank: 0 in
    `client_transaction_version` and `partition_count`, -1 in the others. Times are ms. `timestamp_ms` is the record's
    own timestamp or, under LogAppendTime, the largest timestamp of its batch.
    """

    partition: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    timestamp_ms: npt.NDArray[np.int64]
    leader_epoch: npt.NDArray[np.int32]
    kind: npt.NDArray[np.int8]
    transactional_ids: Slices
    rejects: tuple[Reject, ...]
    """The records that could not be decoded, in the order of the rows."""
    next_offsets: dict[int, int]
    """A mapping from partition to the offset up to which its log was decoded: the end of the last whole batch, within
    [lo, hi] of its chunk. Empty and broken batches count as whole; a batch with a wrong length does not."""
    broken: tuple[BrokenBatch, ...]
    batches: int
    """Number of whole batches read, whatever they contain."""
    bytes: int
    """Total size (bytes) of the whole batches read."""
    values: Slices
    """The raw values of the rows."""

    def __len__(self) -> int:
        return len(self.offset)

    def participants(self, row: int) -> Partitions:
        """Returns the participants (topic, partitions) in this row; () for a row that is not a VALUE."""
        value = self.values.get(row)
        if value is None or self.kind[row] != VALUE:
            return ()
        return decode_value(value).partitions or ()


def holes(offsets: npt.NDArray[np.int64], lo: int, hi: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns the starts and the (exclusive) ends of the ranges of [lo, hi) that contain none of the ascending
    `offsets`."""
    there = np.concatenate(([lo - 1], offsets, [hi]))
    before = np.flatnonzero(np.diff(there) > 1)
    return there[before] + 1, there[before + 1]

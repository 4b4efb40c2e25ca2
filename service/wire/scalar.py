"""The log decoded batch by batch and record by record: the reference, and the way for all that is not ordinary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from service.wire.batches import BadBatch, Batch, claimed_end, read_batches
from service.wire.errors import BadLength, BadOffset, DecodeError
from service.wire.log_columns import (
    RAW_LIMIT,
    TOMBSTONE,
    UNDECODABLE,
    VALUE,
    BrokenBatch,
    Chunk,
    LogColumns,
    Reject,
    Slices,
)
from service.wire.records import read_records
from service.wire.transaction_log import TransactionValue, decode_key, decode_value
from service.wire.values import ValueColumns

BLANK = TransactionValue(-1, -1, -1, -1, -1, None, -1, -1)
"""The fields of a row without value."""


class LocatedRecord(NamedTuple):
    """A record whose bytes are known and not yet understood."""

    offset: int
    timestamp_ms: int
    leader_epoch: int
    key: bytes | None
    value: bytes | None


class LocatedChunk(NamedTuple):
    """The records of a chunk between lo and hi, and how far it reaches."""

    records: list[LocatedRecord]
    broken: list[BrokenBatch]
    next_offset: int
    batches: int
    bytes: int


def locate(chunk: Chunk) -> LocatedChunk:
    """Finds the records of one chunk. Control batches are stepped over; of a batch with one unreadable record none is
    delivered."""
    found = list(read_batches(chunk.data, chunk.lo))
    records: list[LocatedRecord] = []
    broken: list[BrokenBatch] = []
    position = claimed = chunk.lo
    batches = size = 0
    follows = _follows(found, len(chunk.data))
    for index, batch in enumerate(found):
        if index and _is_doubtful(batch, claimed):
            break  # the next Fetch begins where a batch begins
        claimed = batch.header.next_offset if isinstance(batch, Batch) else batch.next_offset
        reached = claimed
        error = _collect(batch, chunk, records) if isinstance(batch, Batch) else batch.error
        if error is not None:
            limit, is_known = follows[index]
            offset = placed(batch.base_offset, claimed, position, chunk.hi if limit is None else limit)
            if limit is not None and limit > offset:
                reached = limit
            elif not is_known or offset != batch.base_offset:
                reached = max(offset, position) + 1
            reached = max(chunk.lo, min(reached, chunk.hi))
            if offset < chunk.hi:
                broken.append(_broken(chunk, batch, offset, reached, error))
        if batch.size is None:
            break
        position = max(position, min(reached, chunk.hi))
        batches += 1
        size += batch.size
    return LocatedChunk(records, broken, position, batches, size)


def _is_doubtful(batch: Batch | BadBatch, expected: int) -> bool:
    """Whether these may be bytes where no batch begins, because a length before them is wrong."""
    is_whole = isinstance(batch, Batch) or isinstance(batch.error, BadOffset)  # the checksum is right
    return not is_whole and batch.base_offset != expected


def _follows(found: Sequence[Batch | BadBatch], size: int) -> list[tuple[int | None, bool]]:
    """Where the log goes on if a batch is broken: (base of the next good one, whether all that follows is known).

    A broken batch may have a wrong length, and then what lies behind it are no batches: they are believed if they begin
    where it claims to end. Else offsets are tried one by one: a damaged number must not skip records.
    """
    following: list[tuple[int | None, bool]] = []
    last = found[-1] if found else None
    known: tuple[int | None, bool] = (
        None,
        last is not None and last.size is not None and last.position + last.size == size,
    )
    for batch, behind in zip(reversed(found), [None, *reversed(found)], strict=False):
        claimed = batch.header.next_offset if isinstance(batch, Batch) else batch.next_offset
        if behind is not None and _is_doubtful(behind, claimed):
            known = (None, False)
        following.append(known)
        if isinstance(batch, Batch):
            known = (batch.base_offset, True)
    return following[::-1]


def placed(base: int, end: int, position: int, limit: int) -> int:
    """The offset to report of a batch that is broken and lies where `position` was expected: what it claims itself, if
    that can be true."""
    return base if position < end and base < max(limit, position + 1) else position


def _collect(batch: Batch, chunk: Chunk, records: list[LocatedRecord]) -> DecodeError | None:
    """Adds the records of a batch, or says why there are none."""
    if batch.header.is_control:
        return None
    try:
        found = read_records(batch)
    except DecodeError as error:
        return error
    epoch = batch.header.leader_epoch
    records.extend(
        LocatedRecord(record.offset, record.timestamp_ms, epoch, record.key, record.value)
        for record in found
        if chunk.lo <= record.offset < chunk.hi
    )
    return None


def _broken(chunk: Chunk, batch: Batch | BadBatch, offset: int, reached: int, error: DecodeError) -> BrokenBatch:
    size = batch.size
    end = len(chunk.data) if size is None else batch.position + size
    raw = chunk.data[batch.position : min(end, batch.position + RAW_LIMIT)]
    return BrokenBatch(chunk.partition, offset, error.reason, None if size is None else reached, raw)


def misread(partition: int, at: int, data: bytes) -> BrokenBatch:
    """The first batch of `data`, of which a Fetch from `at` gave all there is, and which still leads nowhere."""
    found = next(read_batches(data), None)
    error = BadLength if found is None else BadOffset
    base = int.from_bytes(data[:8], "big", signed=True)
    offset = placed(base, claimed_end(data, 0) if len(data) >= 8 else base, at, at)
    return BrokenBatch(partition, offset, error.reason, None, data[:RAW_LIMIT])


def reject(
    partition: int,
    offset: int,
    error: DecodeError,
    transactional_id: bytes | None,
    key: bytes | None,
    value: bytes | None,
) -> Reject:
    """A record that cannot be read; without an id if its key is at fault."""
    return Reject(partition, offset, error.reason, transactional_id, _cut(key), _cut(value))


def _cut(data: bytes | None) -> bytes | None:
    return None if data is None else data[:RAW_LIMIT]


class Ends(NamedTuple):
    """What LogColumns says of the chunks as a whole."""

    next_offsets: dict[int, int]
    broken: tuple[BrokenBatch, ...]
    batches: int
    bytes: int


def decode_scalar(chunks: Sequence[Chunk]) -> LogColumns:
    """The same as `columns.decode`, record by record."""
    located = [locate(chunk) for chunk in chunks]
    rejects: list[Reject] = []
    rows = [
        row
        for chunk, found in zip(chunks, located, strict=True)
        for record in found.records
        if (row := _row(chunk.partition, record, rejects)) is not None
    ]
    return _columns(rows, rejects, ends(chunks, located))


def ends(chunks: Sequence[Chunk], located: Sequence[LocatedChunk]) -> Ends:
    """Sums up the chunks; of several chunks of a partition the furthest position counts."""
    next_offsets: dict[int, int] = {}
    for chunk, found in zip(chunks, located, strict=True):
        next_offsets[chunk.partition] = max(next_offsets.get(chunk.partition, 0), found.next_offset)
    broken = tuple(one for found in located for one in found.broken)
    return Ends(next_offsets, broken, sum(found.batches for found in located), sum(found.bytes for found in located))


class _Row(NamedTuple):
    partition: int
    record: LocatedRecord
    transactional_id: bytes
    kind: int
    fields: TransactionValue


def _row(partition: int, record: LocatedRecord, rejects: list[Reject]) -> _Row | None:
    """What the record says; None if not even its id can be told."""
    try:
        transactional_id = decode_key(record.key)
    except DecodeError as error:
        rejects.append(reject(partition, record.offset, error, None, record.key, record.value))
        return None
    if record.value is None:
        return _Row(partition, record, transactional_id, TOMBSTONE, BLANK)
    try:
        return _Row(partition, record, transactional_id, VALUE, decode_value(record.value))
    except DecodeError as error:
        rejects.append(reject(partition, record.offset, error, transactional_id, record.key, record.value))
        return _Row(partition, record, transactional_id, UNDECODABLE, BLANK)


def _columns(rows: list[_Row], rejects: list[Reject], ends: Ends) -> LogColumns:
    values = [row.record.value for row in rows]
    size = np.array([-1 if value is None else len(value) for value in values], np.int64)
    taken = np.maximum(size, 0)
    fields = ValueColumns.blank(len(rows))
    for index, row in enumerate(rows):
        fields.put(index, row.fields)
    return LogColumns(
        np.array([row.partition for row in rows], np.int32),
        np.array([row.record.offset for row in rows], np.int64),
        np.array([row.record.timestamp_ms for row in rows], np.int64),
        np.array([row.record.leader_epoch for row in rows], np.int32),
        np.array([row.kind for row in rows], np.int8),
        *fields,
        pa.array([row.transactional_id for row in rows], pa.binary()),
        tuple(rejects),
        *ends,
        Slices(b"".join(value or b"" for value in values), np.cumsum(taken) - taken, size),
    )

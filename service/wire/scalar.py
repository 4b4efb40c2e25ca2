"""The log decoded batch by batch and record by record: the reference, and the way for all that is not ordinary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from service.wire.batches import BadBatch, Batch, read_batches
from service.wire.errors import DecodeError
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
    found = list(read_batches(chunk.data))
    records: list[LocatedRecord] = []
    broken: list[BrokenBatch] = []
    position = chunk.lo
    batches = size = 0
    for index, batch in enumerate(found):
        if batch.size is None:
            broken.append(_broken(chunk, batch, None, batch.error))
            break
        if isinstance(batch, Batch):
            reached = batch.header.next_offset
            error = _collect(batch, chunk, records)
        else:
            reached = _resume(chunk, batch, found[index + 1 : index + 2])
            error = batch.error
        if error is not None:
            broken.append(_broken(chunk, batch, reached, error))
        position = max(position, min(reached, chunk.hi))
        batches += 1
        size += batch.size
    return LocatedChunk(records, [one for one in broken if one.offset < chunk.hi], position, batches, size)


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


def _resume(chunk: Chunk, bad: BadBatch, following: Sequence[Batch | BadBatch]) -> int:
    """Where the log goes on behind a header that cannot be trusted: at the next good batch, else as far as it claims,
    but never past what was asked for: a damaged number must not skip records."""
    for batch in following:
        if isinstance(batch, Batch) and batch.base_offset > bad.base_offset:
            return batch.base_offset
    return max(chunk.lo, min(bad.next_offset, chunk.hi))


def _broken(chunk: Chunk, batch: Batch | BadBatch, resume: int | None, error: DecodeError) -> BrokenBatch:
    end = len(chunk.data) if batch.size is None else batch.position + batch.size
    raw = chunk.data[batch.position : min(end, batch.position + RAW_LIMIT)]
    return BrokenBatch(chunk.partition, batch.base_offset, error.reason, resume, raw)


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

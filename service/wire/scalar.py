"""Decodes the transaction log record by record: the reference for the vector form, and the fallback for odd input."""

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
    ValueColumns,
)
from service.wire.records import read_records
from service.wire.transaction_log import TransactionValue, decode_key, decode_value

BLANK = TransactionValue(-1, -1, -1, -1, -1, None, -1, -1)
"""The fields of a row without value."""


class LocatedRecord(NamedTuple):
    """A record with its position in the log; key and value are not decoded yet."""

    offset: int
    timestamp_ms: int
    leader_epoch: int
    key: bytes | None
    value: bytes | None


class LocatedChunk(NamedTuple):
    """The records of a chunk in [lo, hi), its broken batches, and the offset up to which it was read."""

    records: list[LocatedRecord]
    broken: list[BrokenBatch]
    next_offset: int
    batches: int
    bytes: int


def locate(chunk: Chunk) -> LocatedChunk:
    """Finds the records of one chunk. Skips control batches. If one record of a batch is unreadable, the whole batch is
    left out."""
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
            offset = plausible_offset(batch.base_offset, claimed, position, chunk.hi if limit is None else limit)
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
    """Returns True if there is possibly no batch at this position, because a length before it is wrong."""
    is_whole = isinstance(batch, Batch) or isinstance(batch.error, BadOffset)  # the checksum is right
    return not is_whole and batch.base_offset != expected


def _follows(found: Sequence[Batch | BadBatch], size: int) -> list[tuple[int | None, bool]]:
    """Returns, for each batch, the place at which the log continues if that batch is broken: (base offset of the next
    good batch or None, True if the bytes up to there are certainly batches).

    If the length of a broken batch is wrong, the bytes after it may be no batch. They are accepted as a batch if they
    begin at the offset where the broken batch claims to end. Otherwise offsets are tried one by one, because a damaged
    number must not skip records.
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


def plausible_offset(base: int, end: int, position: int, limit: int) -> int:
    """Returns the offset to report for a broken batch found where `position` was expected: its own base offset if that
    is possible, else `position`."""
    return base if position < end and base < max(limit, position + 1) else position


def _collect(batch: Batch, chunk: Chunk, records: list[LocatedRecord]) -> DecodeError | None:
    """Adds the records of a batch to `records`, or returns the error that makes the batch unreadable."""
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
    """Returns the first batch of `data` as broken. `data`: the answer to a Fetch from `at` that had room for more, but
    does not let reading continue. The batch's length is wrong (BadLength), or its offset is that of another place
    (BadOffset)."""
    found = next(read_batches(data), None)
    error = BadLength if found is None else BadOffset
    base = int.from_bytes(data[:8], "big", signed=True)
    offset = plausible_offset(base, claimed_end(data, 0) if len(data) >= 8 else base, at, at)
    return BrokenBatch(partition, offset, error.reason, None, data[:RAW_LIMIT])


def reject(
    partition: int,
    offset: int,
    error: DecodeError,
    transactional_id: bytes | None,
    key: bytes | None,
    value: bytes | None,
) -> Reject:
    """Returns the Reject of a record that cannot be decoded; it has no id if the key is at fault."""
    return Reject(partition, offset, error.reason, transactional_id, _cut(key), _cut(value))


def _cut(data: bytes | None) -> bytes | None:
    return None if data is None else data[:RAW_LIMIT]


class ChunkTotals(NamedTuple):
    """The fields of LogColumns that describe the chunks as a whole."""

    next_offsets: dict[int, int]
    broken: tuple[BrokenBatch, ...]
    batches: int
    bytes: int


def decode_scalar(chunks: Sequence[Chunk]) -> LogColumns:
    """Returns the same as `columns.decode`, decoded record by record."""
    located = [locate(chunk) for chunk in chunks]
    rejects: list[Reject] = []
    rows = [
        row
        for chunk, found in zip(chunks, located, strict=True)
        for record in found.records
        if (row := _row(chunk.partition, record, rejects)) is not None
    ]
    return _columns(rows, rejects, chunk_totals(chunks, located))


def chunk_totals(chunks: Sequence[Chunk], located: Sequence[LocatedChunk]) -> ChunkTotals:
    """Sums up the chunks. If a partition has several chunks, the furthest position counts."""
    next_offsets: dict[int, int] = {}
    for chunk, found in zip(chunks, located, strict=True):
        next_offsets[chunk.partition] = max(next_offsets.get(chunk.partition, 0), found.next_offset)
    broken = tuple(one for found in located for one in found.broken)
    return ChunkTotals(
        next_offsets, broken, sum(found.batches for found in located), sum(found.bytes for found in located)
    )


class _Row(NamedTuple):
    partition: int
    record: LocatedRecord
    transactional_id: bytes
    kind: int
    fields: TransactionValue


def _row(partition: int, record: LocatedRecord, rejects: list[Reject]) -> _Row | None:
    """Decodes one record and adds any error to `rejects`; returns None if even its id is unreadable."""
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


def _columns(rows: list[_Row], rejects: list[Reject], ends: ChunkTotals) -> LogColumns:
    values = [row.record.value for row in rows]
    size = np.array([-1 if value is None else len(value) for value in values], np.int64)
    taken = np.maximum(size, 0)
    fields = ValueColumns.blank(len(rows))
    for index, row in enumerate(rows):
        fields.put(index, row.fields)
    return LogColumns(
        **fields.by_name(),
        partition=np.array([row.partition for row in rows], np.int32),
        offset=np.array([row.record.offset for row in rows], np.int64),
        timestamp_ms=np.array([row.record.timestamp_ms for row in rows], np.int64),
        leader_epoch=np.array([row.record.leader_epoch for row in rows], np.int32),
        kind=np.array([row.kind for row in rows], np.int8),
        transactional_ids=pa.array([row.transactional_id for row in rows], pa.binary()),
        rejects=tuple(rejects),
        **ends._asdict(),
        values=Slices(b"".join(value or b"" for value in values), np.cumsum(taken) - taken, size),
    )

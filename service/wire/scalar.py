"""Finds the records of a chunk batch by batch: the fallback for chunks that the vector form does not support."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from service.wire.batches import BadBatch, Batch, claimed_end, read_batches
from service.wire.errors import BadLength, BadOffset, DecodeError
from service.wire.log_columns import RAW_LIMIT, BrokenBatch, Chunk
from service.wire.records import Record, read_records


class LocatedChunk(NamedTuple):
    """The records of a chunk within [lo, hi), and the chunk's broken batches. `next_offset`: the offset up to which the
    chunk was read. `batches`, `bytes`: number and size of the batches read."""

    records: list[Record]
    broken: list[BrokenBatch]
    next_offset: int
    batches: int
    bytes: int


def locate(chunk: Chunk) -> LocatedChunk:
    """Finds the records of one chunk. Skips control batches. If one record of a batch is unreadable, the whole batch is
    broken and none of its records is returned."""
    found = list(read_batches(chunk.data, chunk.lo))
    records: list[Record] = []
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
    """Returns whether these bytes may be no batch at all, because the length of an earlier batch may be wrong.
    `expected`: the offset at which the earlier batch claims to end."""
    is_whole = isinstance(batch, Batch) or isinstance(batch.error, BadOffset)  # the checksum is right
    return not is_whole and batch.base_offset != expected


def _follows(found: Sequence[Batch | BadBatch], size: int) -> list[tuple[int | None, bool]]:
    """Returns a pair for each batch, for the case that this batch is broken. The first value is the base offset of the
    next good batch, where the log continues; None if this offset is not known. The second value is True if the bytes up
    to that batch, or up to the end of the data, are certainly batches.

    If the length of a broken batch is wrong, the bytes after it may be no batch. They count as a batch if their
    checksum is right, or if they begin at the offset where the broken batch claims to end. Otherwise the pair is (None,
    False), and reading continues at the next offset, so that a damaged length never makes reading skip records.
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
    """Returns the offset to report for a broken batch that was read where offset `position` was expected: the batch's
    own base offset if the batch ends after `position` and begins before `limit`, else `position`."""
    return base if position < end and base < max(limit, position + 1) else position


def _collect(batch: Batch, chunk: Chunk, records: list[Record]) -> DecodeError | None:
    """Adds the records of a batch to `records`, if their offsets are in the chunk's [lo, hi). Returns the error if the
    batch is unreadable, else None. Adds nothing for a control batch."""
    if batch.header.is_control:
        return None
    try:
        records.extend(record for record in read_records(batch) if chunk.lo <= record.offset < chunk.hi)
    except DecodeError as error:
        return error
    return None


def _broken(chunk: Chunk, batch: Batch | BadBatch, offset: int, reached: int, error: DecodeError) -> BrokenBatch:
    size = batch.size
    end = len(chunk.data) if size is None else batch.position + size
    raw = chunk.data[batch.position : min(end, batch.position + RAW_LIMIT)]
    return BrokenBatch(chunk.partition, offset, error.reason, None if size is None else reached, raw)


def misread(partition: int, at: int, data: bytes) -> BrokenBatch:
    """Returns the first batch of `data` as broken. `data` is the answer to a Fetch from offset `at`. Reading could not
    continue from this answer, although the answer had room for more bytes. The error is BadLength if `data` has no
    whole batch. Otherwise the error is BadOffset, because the batch has the offset of another place in the log."""
    found = next(read_batches(data), None)
    error = BadLength if found is None else BadOffset
    base = int.from_bytes(data[:8], "big", signed=True)
    offset = plausible_offset(base, claimed_end(data, 0) if len(data) >= 8 else base, at, at)
    return BrokenBatch(partition, offset, error.reason, None, data[:RAW_LIMIT])

"""Finds the batches and records of many chunks in one pass, and marks the chunks that are not ordinary.

An ordinary chunk has uncompressed batches of format 2 with good checksums and rising offsets. Its records have no
headers, and no number of more than LONGEST_VARINT bytes. Control batches, empty batches and a partial tail are
ordinary. `service.wire.scalar` reads any other chunk as a whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from service.wire import batches
from service.wire.batches import HEADER_SIZE, LENGTH_END
from service.wire.log_columns import Chunk, Slices
from service.wire.vectors import PADDING, Bools, Bytes, Ints, blocks, structs, varint

SHORTEST: Final = HEADER_SIZE - LENGTH_END
"""The smallest batchLength that leaves room for a header."""
STRETCH: Final = 1 << 12
"""Approximate number of bytes that one walk (from batch to batch) covers."""
FEWEST_WALKS: Final = 64
"""Minimum number of simultaneous walks. With fewer walks, `_starts_by_loop` is faster."""
MOST_STEPS: Final = 2 * STRETCH // HEADER_SIZE
"""Maximum steps of one walk. A walk needs more steps only if no header is found in a long stretch of bytes. In this
case `_starts_by_loop` is faster."""

_LENGTH = struct.Struct(">8xi")
_USUAL_END: Final = b"\xff" * 14 + b"\0\0\0\1"
"""The last bytes of the headers that coordinators write: no producer id, epoch and sequence (all -1), one record."""

HEADER: Final = np.dtype(
    [
        *(("base", ">i8"), ("length", ">i4"), ("leader_epoch", ">i4"), ("magic", "u1"), ("crc", ">u4")),
        *(("attributes", ">i2"), ("delta", ">i4"), ("base_ms", ">i8"), ("max_ms", ">i8"), ("producer_id", ">i8")),
        *(("producer_epoch", ">i2"), ("base_sequence", ">i4"), ("count", ">i4")),
    ]
)
HIGHEST_BASE: Final = 2**63 - 2**31 - 1
"""Highest base offset accepted: above it, base + delta + 1 may not fit into an int64."""


def batch_length(data: bytes, position: int) -> int:
    """Returns the batchLength of the batch that begins at `position`."""
    length: int = _LENGTH.unpack_from(data, position)[0]
    return length


def batch_starts(data: bytes) -> Ints:
    """Returns the positions of the batches, up to the first bytes that cannot be a batch. The last batch may be cut.

    Each batch contains only its own length, so only a Python loop over all batches is certain to find them.
    `_guessed_starts` takes a quarter of the loop's time; its result is used if it is provably the same as that of the
    loop.
    """
    guessed = _guessed_starts(data) if len(data) >= FEWEST_WALKS * STRETCH else None
    return np.fromiter(_starts_by_loop(data), np.int64) if guessed is None else guessed


def _starts_by_loop(data: bytes) -> Iterator[int]:
    position, last = 0, len(data) - HEADER_SIZE
    while position <= last:
        length = batch_length(data, position)
        if length < SHORTEST:
            return
        yield position
        position += length + LENGTH_END


def _guessed_starts(data: bytes) -> Ints | None:
    """Returns the positions of the batches, from simultaneous walks: each walk begins at a place that looks like a
    header, and ends at the next such place. Returns None if the walks do not join into one walk, or if one takes more
    than MOST_STEPS steps."""
    begin = np.array([0, *_header_candidates(data)], np.int64)
    end = np.append(begin[1:], len(data) - HEADER_SIZE + 1)
    length_at: npt.NDArray[Any] = np.ndarray((len(data) - LENGTH_END + 1,), ">i4", data, LENGTH_END - 4, (1,))
    places: list[Ints] = []
    lengths: list[npt.NDArray[Any]] = []
    at = begin
    while (at < end).any():
        if len(places) == MOST_STEPS:
            return None
        places.append(at)
        lengths.append(length_at[at])
        at = np.minimum(at + np.maximum(lengths[-1], SHORTEST) + LENGTH_END, end)
    place = np.stack(places, axis=1)
    walked = place < end[:, None]
    starts, length = place[walked], np.stack(lengths, axis=1)[walked]
    is_one_walk = (starts[1:] == (starts + length + LENGTH_END)[:-1]).all()
    return starts if is_one_walk and length.min() >= SHORTEST else None


def _header_candidates(data: bytes) -> Iterator[int]:
    """Yields positions where a batch header seems to begin, at most one in about STRETCH bytes. Searches for
    _USUAL_END. The value of a record may contain these bytes, too, so the caller checks each position."""
    position = 0
    while (found := data.find(_USUAL_END, position + STRETCH)) >= 0:
        position = found + len(_USUAL_END) - HEADER_SIZE
        yield position


class Located(NamedTuple):
    """Records in the order of the buffer `data`, as columns. `chunk`: the index of the chunk. A key or value with a
    size below 0 is null."""

    data: bytes
    chunk: Ints
    offset: Ints
    timestamp_ms: Ints
    leader_epoch: npt.NDArray[np.int32]
    key_start: Ints
    key_size: Ints
    value_start: Ints
    value_size: Ints

    def key(self, row: int) -> bytes | None:
        return Slices(self.data, self.key_start, self.key_size).get(row)

    def value(self, row: int) -> bytes | None:
        return Slices(self.data, self.value_start, self.value_size).get(row)

    def rows(self, which: Bools | Ints) -> Located:
        return Located._make([self.data, *(column[which] for column in self[1:])])


class LocatedChunks(NamedTuple):
    """The records of all ordinary chunks. The other fields have a value for every chunk: whether the scalar form must
    read it, the offset up to which it was read, and the number and the total size (bytes) of its whole batches."""

    records: Located
    needs_scalar: Bools
    next_offset: Ints
    batches: Ints
    bytes: Ints


class _Found(NamedTuple):
    """Batches and their records. `bad`: True for a batch that cannot be part of an ordinary chunk. `base`: the base
    offset of each batch. `reached`: the offset after each batch."""

    records: Located
    bad: Bools
    base: Ints
    reached: Ints


def locate(chunks: Sequence[Chunk]) -> LocatedChunks:
    """Finds the records of all chunks in one pass. Leaves out records outside of their chunk's [lo, hi), and all
    records of chunks that the scalar form must read."""
    walked = [walk(chunk.data) for chunk in chunks]
    counts = np.array([len(positions) for positions, _, _ in walked], np.int64)
    used = np.array([end for _, end, _ in walked], np.int64)
    odd = np.array([strange for _, _, strange in walked], np.bool_)
    pieces = [memoryview(chunk.data)[:end] for chunk, end in zip(chunks, used.tolist(), strict=True)]
    data = b"".join([*pieces, bytes(PADDING)])
    starts = np.concatenate([np.zeros(0, np.int64), *(positions for positions, _, _ in walked)])
    start = starts + np.repeat(np.cumsum(used) - used, counts)
    chunk = np.repeat(np.arange(len(chunks)), counts)

    records, bad, base, reached = _batches(data, start, np.append(start[1:], used.sum()), chunk)
    bad[1:] |= (base[1:] < reached[:-1]) & (chunk[1:] == chunk[:-1])
    odd[chunk[bad]] = True
    lo = np.array([chunk.lo for chunk in chunks], np.int64)
    hi = np.array([chunk.hi for chunk in chunks], np.int64)
    wanted = (records.offset >= lo[records.chunk]) & (records.offset < hi[records.chunk]) & ~odd[records.chunk]
    some = np.flatnonzero(counts)
    next_offset = lo.copy()
    next_offset[some] = np.maximum(lo[some], np.minimum(reached[np.cumsum(counts)[some] - 1], hi[some]))
    return LocatedChunks(records if wanted.all() else records.rows(wanted), odd, next_offset, counts, used)


def walk(data: bytes) -> tuple[Ints, int, bool]:
    """Returns the positions of the whole batches, the end of the last whole batch, and whether the bytes after this end
    cannot be the beginning of a batch."""
    positions = batch_starts(data)
    end = 0
    if positions.size:
        last = int(positions[-1])
        end = last + batches.LENGTH_END + batch_length(data, last)
        if end > len(data):
            return positions[:-1], last, False
    strange = len(data) - end >= batches.LENGTH_END and batch_length(data, end) < SHORTEST
    return positions, end, strange


def _batches(data: bytes, start: Ints, stop: Ints, chunk: Ints) -> _Found:
    """Reads batches block by block. Because the columns of a block stay in the cache, this is twice as fast as one pass
    over all batches."""
    view: Bytes = np.frombuffer(data, np.uint8)
    found = [_block(data, view, start[block], stop[block], chunk[block]) for block in blocks(len(start))]
    if len(found) == 1:
        return found[0]
    records = zip(*(one.records[1:] for one in found), strict=True)
    rest = zip(*(one[1:] for one in found), strict=True)
    return _Found(Located._make([data, *map(np.concatenate, records)]), *map(np.concatenate, rest))


def _block(data: bytes, view: Bytes, start: Ints, stop: Ints, chunk: Ints) -> _Found:
    header = structs(view, start, HEADER)
    base = header["base"].astype(np.int64)
    delta = header["delta"].astype(np.int64)
    count = header["count"].astype(np.int64)
    attributes = header["attributes"]
    control = (attributes & batches.CONTROL) != 0
    bad: Bools = (header["magic"] != batches.MAGIC) | (delta < 0) | (count < 0) | (base < 0) | (base > HIGHEST_BASE)
    bad |= ((attributes & batches.CODEC_MASK) != 0) & ~control
    bad |= batches.has_wrong_checksum(view, start, stop - start, header["crc"].astype(np.uint32))

    bad |= (count == 0) & (stop - start > batches.HEADER_SIZE) & ~control
    count[control | bad] = 0
    row_start, row_stop, batch = _record_starts(data, start + batches.HEADER_SIZE, stop, count, bad)
    odd, time_delta, offset_delta, keys, values = _records(view, row_start, row_stop)
    odd |= (offset_delta < 0) | (offset_delta > delta[batch])
    odd[1:] |= (offset_delta[1:] <= offset_delta[:-1]) & (batch[1:] == batch[:-1])
    bad[batch[odd]] = True
    time = header["base_ms"].astype(np.int64)[batch] + time_delta
    stamped = ((attributes & batches.LOG_APPEND_TIME) != 0)[batch]
    time[stamped] = header["max_ms"][batch[stamped]]
    epoch = header["leader_epoch"].astype(np.int32)[batch]
    records = Located(data, chunk[batch], base[batch] + offset_delta, time, epoch, *keys, *values)
    return _Found(records, bad, base, base + delta + 1)


def _record_starts(data: bytes, start: Ints, stop: Ints, count: Ints, bad: Bools) -> tuple[Ints, Ints, Ints]:
    """Returns (first byte, byte after the last, batch) of each record. A batch of the coordinator usually has one
    record, which begins after the header. In a batch of several records (tombstones), a loop goes from record to
    record. Marks such a batch in `bad` if its records do not fill it exactly."""
    several = {}
    for row in np.flatnonzero(count > 1).tolist():
        several[row] = _cut(data, int(start[row]), int(stop[row]), int(count[row]))
        if not several[row]:
            bad[row] = True
            count[row] = 0
    batch = np.repeat(np.arange(len(start)), count)
    row_start, row_stop = start[batch], stop[batch]
    first = np.cumsum(count) - count
    for row, starts in several.items():
        if starts:
            at = int(first[row])
            row_start[at : at + len(starts)] = starts
            row_stop[at : at + len(starts) - 1] = starts[1:]
    return row_start, row_stop, batch


def _cut(data: bytes, position: int, stop: int, count: int) -> list[int]:
    """Returns the starts of `count` records that fill the bytes up to `stop`; an empty list if they do not fill these
    bytes exactly."""
    starts = []
    for _ in range(count):
        starts.append(position)
        number = shift = 0
        while (byte := data[position]) > 0x7F and shift < 14:
            number |= (byte & 0x7F) << shift
            shift += 7
            position += 1
        number |= byte << shift
        position += 1 + (number >> 1)
        if number & 1 or position > stop:
            return []
    return starts if position == stop else []


def _records(data: Bytes, start: Ints, stop: Ints) -> tuple[Bools, Ints, Ints, tuple[Ints, Ints], tuple[Ints, Ints]]:
    """Reads records field by field. Returns (not ordinary, timestamp delta, offset delta, key slices, value slices)."""
    odd = np.zeros(len(start), np.bool_)
    length, at = varint(data, start, odd)
    odd |= at + length != stop
    time_delta, at = varint(data, at + 1, odd)
    offset_delta, at = varint(data, at, odd)
    key_size, key_start = varint(data, at, odd)
    at = np.minimum(key_start + np.maximum(key_size, 0), stop)
    value_size, value_start = varint(data, at, odd)
    no_headers = stop - 1
    odd |= value_start + np.maximum(value_size, 0) != no_headers
    odd |= data[no_headers] != 0
    return odd, time_delta, offset_delta, (key_start, key_size), (value_start, value_size)

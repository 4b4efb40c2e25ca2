"""Finds the record batches in a buffer, reads their headers, and checks many checksums with one call
(`has_wrong_checksum`).

RecordBatch v2, all big-endian (DefaultRecordBatch.java):

| off | size | field                | note                                                       |
|-----|------|----------------------|------------------------------------------------------------|
| 0   | 8    | baseOffset           | not under the CRC                                          |
| 8   | 4    | batchLength          | bytes after this field: total - 12                         |
| 12  | 4    | partitionLeaderEpoch | not under the CRC                                          |
| 16  | 1    | magic                | 2                                                          |
| 17  | 4    | crc                  | CRC-32C of bytes 21..end                                   |
| 21  | 2    | attributes           | see below                                                  |
| 23  | 4    | lastOffsetDelta      | kept by compaction                                         |
| 27  | 8    | baseTimestamp        | the delete horizon if bit 6 is set; -1 in an emptied batch |
| 35  | 8    | maxTimestamp         |                                                            |
| 43  | 8    | producerId           | -1: none                                                   |
| 51  | 2    | producerEpoch        | -1: none                                                   |
| 53  | 4    | baseSequence         | -1: none                                                   |
| 57  | 4    | recordsCount         | 0 possible after compaction                                |
| 61  |      | records              | one compressed blob if bits 0-2 are set                    |

attributes: bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control, 6 delete horizon, 7-15 unused.

One CRC call costs ten times as much as the bytes of a small batch, so `has_wrong_checksum` makes one call for many
batches. The function copies the batches, and overwrites the bytes before each checksummed part with a patch. The patch
changes the CRC register: from the CRC in the header of the previous batch to the value at the start of a message. So if
all CRCs are right, the CRC over the whole copy equals the CRC of the last batch. A CRC is linear: a wrong batch leaves
a difference in the register that later bytes never clear. Two errors cancel each other as rarely as a CRC misses a
single error.

A patch has 21 bytes: the register's value (4 bytes, which set the register to zero), 13 zeros (the register stays
zero), and _WAKE (4 bytes that take the register from zero to all ones).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt

from service.wire.cursor import wrap
from service.wire.errors import BadChecksum, BadLength, BadOffset, DecodeError, MalformedBatch, UnsupportedMagic
from service.wire.vectors import Bools, Bytes, Ints

ALL_ONES: Final = 0xFFFFFFFF
BLOCK: Final = 1 << 20
"""Approximate number of bytes that one CRC call checks: few enough for the copy to stay in the cache. If a batch is
bad, all batches that were checked by the same call are checked again, one by one."""


def _wake() -> int:
    """Returns the 4 bytes (little-endian) that change a CRC register from zero to all ones. Runs the CRC backwards, bit
    by bit."""
    register = ALL_ONES
    for _ in range(32):
        register = ((register ^ 0x82F63B78) << 1 | 1) if register & 0x80000000 else register << 1
    return register


_PATCH = np.dtype([("register", "<u4"), ("zeros", "V13"), ("wake", "<u4")])
_WAKE: Final = _wake()


def has_wrong_checksum(data: Bytes, start: Ints, size: Ints, crc: npt.NDArray[np.uint32]) -> Bools:
    """Returns, for each batch, whether its CRC-32C differs from the batch's value in `crc`. The batches lie back to
    back in `data`."""
    bad = np.zeros(len(start), np.bool_)
    first = 0
    while first < len(start):
        last = int(np.searchsorted(start, start[first] + BLOCK))
        block = slice(first, max(last, first + 1))
        if not _all_right(data, start[block], size[block], crc[block]):
            for row in range(*block.indices(len(start))):
                begin = int(start[row])
                covered = data[begin + CRC_FROM : begin + int(size[row])].tobytes()
                bad[row] = google_crc32c.value(covered) != crc[row]
        first = block.stop
    return bad


def _all_right(data: Bytes, start: Ints, size: Ints, crc: npt.NDArray[np.uint32]) -> bool:
    begin = start[0]
    copy = data[begin : start[-1] + size[-1]].copy()
    patches = np.zeros(len(start), _PATCH)
    patches["register"][0] = ALL_ONES
    patches["register"][1:] = crc[:-1] ^ np.uint32(ALL_ONES)
    patches["wake"] = _WAKE
    raw = np.dtype(f"V{CRC_FROM}")
    everywhere: npt.NDArray[np.void] = np.ndarray((len(copy) - CRC_FROM + 1,), raw, copy, 0, (1,))
    everywhere[start - begin] = patches.view(raw)
    found: int = google_crc32c.value(copy)
    return found == int(crc[-1])


LAYOUT: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = LAYOUT.size
LENGTH_END: Final = 12
"""The position in a batch after its batchLength. The batchLength counts the bytes from this position on."""
MAGIC_AT: Final = 16
CRC_FROM: Final = 21
DELTA_AT: Final = 23
MAGIC: Final = 2
SMALLEST_LEGACY: Final = 14
"""Smallest batchLength of formats 0 and 1: that of an empty message of format 0 (LegacyRecord.RECORD_OVERHEAD_V0)."""

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20

_PREFIX = struct.Struct(">qi")
_DELTA = struct.Struct(">i")


class BatchHeader(NamedTuple):
    """The header of a batch: its first 61 bytes, as they are written."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def codec(self) -> int:
        """The compression type: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """True if the broker set the timestamps. Then every record has the timestamp `max_timestamp_ms`."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset at which reading continues. Does not depend on the number of records, because compaction removes
        records and keeps the batch's last offset."""
        return self.last_offset + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, which wraps from 2147483647 to 0; -1 if the batch has no sequence
        numbers."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % (1 << 31)


class Batch(NamedTuple):
    """A whole batch with a good checksum; `position`: index of its first byte in the buffer."""

    position: int
    header: BatchHeader
    records: bytes
    """Everything after the header, still compressed."""

    @property
    def base_offset(self) -> int:
        return self.header.base_offset

    @property
    def size(self) -> int:
        """The number of bytes of the whole batch."""
        return HEADER_SIZE + len(self.records)


class BadBatch(NamedTuple):
    """Bytes that are not a valid batch. If the length is wrong, `size` is None: the start of the next batch is unknown,
    and reading ends. The offsets are those in the header; `next_offset` is at least `base_offset` + 1.

    The checksum does not cover the base offset. So a batch with a good checksum can be bad, too (BadOffset):

    - A batch is bad if it begins before the end of the previous good batch.
    - If neither of two neighbouring batches begins before this end, but the two overlap, the first of them is bad. One
      exception: if both begin exactly at this end, the second of them is bad.
    """

    position: int
    base_offset: int
    next_offset: int
    size: int | None
    error: DecodeError


def read_batches(data: bytes, lo: int = 0) -> Iterator[Batch | BadBatch]:
    """Yields every whole batch in `data`, in order, and a BadBatch for each bad one. Ends without an error at a partial
    tail, because a Fetch may cut its data anywhere. A length that points past the buffer cannot be distinguished from a
    partial tail.

    Reading continues after a bad batch if its length is plausible. The first batch has to contain the offset `lo`, or
    to begin after it, as in the answer to a Fetch from `lo`.
    """
    floor, expected = 0, lo
    held: list[Batch | BadBatch] = []  # a good batch that waits for the next one, and bad ones between the two
    for batch in _whole(data):
        if held and isinstance(batch, Batch):
            held[0] = first = _in_order(held[0], floor, expected, batch.base_offset)
            if isinstance(first, Batch):
                floor = expected = first.header.next_offset
            yield from held
            held = []
        if held or isinstance(batch, Batch):
            held.append(batch)
        else:
            yield batch
    if held:
        held[0] = _in_order(held[0], floor, expected, None)
    yield from held


def _in_order(batch: Batch | BadBatch, floor: int, expected: int, following: int | None) -> Batch | BadBatch:
    """Returns the batch, or a BadBatch if it does not fit between `floor` and a good batch at `following`."""
    if isinstance(batch, BadBatch):
        return batch
    header = batch.header
    is_ahead = following is not None and expected <= following < header.next_offset
    is_ahead &= not following == expected == header.base_offset  # both offsets fit: the first batch is trusted
    if header.base_offset >= floor and not is_ahead:
        return batch
    text = f"end offset {header.next_offset} (at most {following} expected)"
    if header.base_offset < floor:
        text = f"base offset {header.base_offset} (at least {floor} expected)"
    return BadBatch(batch.position, header.base_offset, header.next_offset, batch.size, BadOffset(text))


def _whole(data: bytes) -> Iterator[Batch | BadBatch]:
    """Yields every whole batch in `data`, without a check of their order."""
    position = 0
    while len(data) - position >= LENGTH_END:
        base_offset, length = _PREFIX.unpack_from(data, position)
        end = position + LENGTH_END + length
        if end > len(data):
            return
        try:
            yield _read(data, position, end)
        except BadLength as error:
            yield BadBatch(position, base_offset, claimed_end(data, position), None, error)
            return
        except DecodeError as error:
            yield BadBatch(position, base_offset, claimed_end(data, position), end - position, error)
        position = end


def claimed_end(data: bytes, position: int) -> int:
    """Returns the offset after the batch at `position`, according to its header. Returns base offset + 1 if the header
    is cut, or if its delta is below 0."""
    base_offset: int = _PREFIX.unpack_from(data, position)[0]
    delta: int = _DELTA.unpack_from(data, position + DELTA_AT)[0] if len(data) - position >= HEADER_SIZE else 0
    return base_offset + max(delta, 0) + 1


def _read(data: bytes, position: int, end: int) -> Batch:
    if end - position < LENGTH_END + SMALLEST_LEGACY:
        raise BadLength(f"batch length {end - position - LENGTH_END} (at least {SMALLEST_LEGACY} expected)")
    magic = data[position + MAGIC_AT]
    if magic != MAGIC:
        raise UnsupportedMagic(f"message format {magic} ({MAGIC} expected)")
    if end - position < HEADER_SIZE:
        raise BadLength(f"batch length {end - position - LENGTH_END} (at least {HEADER_SIZE - LENGTH_END} expected)")
    header = BatchHeader._make(LAYOUT.unpack_from(data, position))
    crc = google_crc32c.value(data[position + CRC_FROM : end])
    if crc != header.crc:
        raise BadChecksum(f"CRC-32C {header.crc:#010x} written, {crc:#010x} found")
    if header.last_offset_delta < 0 or header.records_count < 0:
        counts = f"last offset delta {header.last_offset_delta}, {header.records_count} records"
        raise MalformedBatch(f"{counts}: neither may be below 0")
    if header.base_offset < 0 or header.next_offset != wrap(header.next_offset, 64):
        raise BadOffset(f"base offset {header.base_offset} (offsets from 0 to 2^63 - 2 expected)")
    return Batch(position, header, data[position + HEADER_SIZE : end])

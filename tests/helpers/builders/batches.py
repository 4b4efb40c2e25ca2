"""Builds record batches v2, data and control, with any codec."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from typing import NamedTuple

import google_crc32c
import pyarrow as pa

from tests.helpers.builders.numbers import varint

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40
ABORT, COMMIT = 0, 1


class Rec(NamedTuple):
    """A record of a batch. Deltas are relative to the base offset and the base timestamp of the batch."""

    key: bytes | None
    value: bytes | None
    offset_delta: int = 0
    timestamp_delta: int = 0
    headers: tuple[tuple[bytes, bytes | None], ...] = ()

    def encode(self) -> bytes:
        body = b"\x00" + varint(self.timestamp_delta) + varint(self.offset_delta)
        body += _nullable(self.key) + _nullable(self.value) + varint(len(self.headers))
        for name, value in self.headers:
            body += _nullable(name) + _nullable(value)
        return varint(len(body)) + body


def _nullable(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def batch(
    records: Sequence[Rec],
    base_offset: int = 0,
    *,
    timestamp_ms: int = 1_700_000_000_000,
    max_timestamp_ms: int | None = None,
    leader_epoch: int = 0,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    xerial: bool = False,
) -> bytes:
    """Returns a batch with a right checksum. Bits 0-2 of `attributes` are the codec. With `xerial`, snappy data have
    the frames of Java's library."""
    if last_offset_delta is None:
        last_offset_delta = max((record.offset_delta for record in records), default=0)
    if max_timestamp_ms is None:
        max_timestamp_ms = timestamp_ms + max((record.timestamp_delta for record in records), default=0)
    return raw_batch(
        compress(attributes & 7, b"".join(record.encode() for record in records), xerial=xerial),
        base_offset,
        leader_epoch=leader_epoch,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        timestamp_ms=timestamp_ms,
        max_timestamp_ms=max_timestamp_ms,
        producer=(producer_id, producer_epoch, base_sequence),
        count=len(records),
    )


def raw_batch(
    payload: bytes,
    base_offset: int = 0,
    *,
    count: int,
    leader_epoch: int = 0,
    attributes: int = 0,
    last_offset_delta: int = 0,
    timestamp_ms: int = 0,
    max_timestamp_ms: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    magic: int = 2,
) -> bytes:
    """Returns a batch with any payload. Length and checksum are right; all other fields are as given."""
    covered = struct.pack(">hiqqqhii", attributes, last_offset_delta, timestamp_ms, max_timestamp_ms, *producer, count)
    covered += payload
    checksum = google_crc32c.value(covered)
    return struct.pack(">qiibI", base_offset, len(covered) + 9, leader_epoch, magic, checksum) + covered


def control_batch(
    kind: int,
    base_offset: int = 0,
    *,
    producer_id: int = 4001,
    producer_epoch: int = 8,
    coordinator_epoch: int = 3,
    leader_epoch: int = 5,
    timestamp_ms: int = 1_700_000_002_000,
    version: int = 0,
) -> bytes:
    """Returns a batch with one marker, as a partition leader writes it (MemoryRecords.writeEndTransactionalMarker)."""
    record = Rec(struct.pack(">hh", version, kind), struct.pack(">hi", version, coordinator_epoch))
    return batch(
        [record],
        base_offset,
        timestamp_ms=timestamp_ms,
        leader_epoch=leader_epoch,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def compress(codec: int, plain: bytes, *, xerial: bool = False) -> bytes:
    """Returns `plain` compressed. `codec` is Kafka's number of the codec; 0 is no compression."""
    if codec == GZIP:
        return gzip.compress(plain, mtime=0)
    if codec == SNAPPY:
        return _xerial(plain) if xerial else bytes(pa.compress(plain, "snappy", asbytes=True))
    if codec in (LZ4, ZSTD):
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, {LZ4: "lz4", ZSTD: "zstd"}[codec]) as stream:
            stream.write(plain)
        return bytes(sink.getvalue().to_pybytes())
    return plain


def _xerial(plain: bytes, block_size: int = 32) -> bytes:
    """Compresses `plain` in the framing of xerial's snappy-java (SnappyOutputStream). Blocks are small, so that there
    are several."""
    out = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for at in range(0, len(plain), block_size):
        block = bytes(pa.compress(plain[at : at + block_size], "snappy", asbytes=True))
        out += struct.pack(">i", len(block)) + block
    return out

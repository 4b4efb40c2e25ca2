"""Tests of reading batches from a buffer: whole, invalid and truncated batches, and their records in every codec."""

from __future__ import annotations

import gzip
import resource
import struct
import tracemalloc
from pathlib import Path

import pytest

from service.wire.batches import BadBatch, Batch, read_batches
from service.wire.compression import decompress
from service.wire.errors import BadCodec, DecodeError, MalformedBatch
from service.wire.records import ABORT, COMMIT, OTHER, ControlRecord, Record, read_control, read_records
from tests.helpers.builders.batches import (
    CONTROL,
    DELETE_HORIZON,
    GZIP,
    LOG_APPEND_TIME,
    LZ4,
    SNAPPY,
    TRANSACTIONAL,
    ZSTD,
    Rec,
    batch,
    compress,
    control_batch,
    raw_batch,
)

NOW = 1_700_000_000_000
COMMIT_MARKER = bytes.fromhex(
    "00 00 00 00 00 00 00 78  00 00 00 42  00 00 00 05  02  1b 1d 2d 5c  00 30  00 00 00 00"
    "00 00 01 8b cf e5 6f d0  00 00 01 8b cf e5 6f d0  00 00 00 00 00 00 0f a1  00 08  ff ff ff ff  00 00 00 01"
    "20  00  00  00  08  00 00 00 01  0c  00 00 00 00 00 03  00"
)
"""A COMMIT marker of producer 4001, epoch 8, coordinator epoch 3. Its checksum was verified with kafka-python."""


def only(data: bytes) -> Batch:
    (found,) = read_batches(data)
    assert isinstance(found, Batch), found
    return found


def bad(data: bytes) -> BadBatch:
    (found,) = read_batches(data)
    assert isinstance(found, BadBatch), found
    return found


def test_the_worked_example_of_a_commit_marker_is_decoded() -> None:
    found = only(COMMIT_MARKER)
    assert (found.header.base_offset, found.header.leader_epoch, found.header.producer_id) == (120, 5, 4001)
    assert (found.header.producer_epoch, found.header.base_sequence) == (8, -1)
    assert found.header.is_transactional
    assert found.header.is_control
    assert read_control(found) == ControlRecord(120, 1_700_000_002_000, COMMIT, 3)
    assert control_batch(COMMIT, 120) == COMMIT_MARKER


@pytest.mark.parametrize(
    ("kind", "version", "expected"),
    [(0, 0, (ABORT, 3)), (1, 0, (COMMIT, 3)), (1, 4, (COMMIT, 3)), (2, 0, (OTHER, -1)), (99, 0, (OTHER, -1))],
    ids=["abort", "commit", "commit of the future", "leader change", "unknown"],
)
def test_a_control_batch_has_its_type_and_coordinator_epoch(kind: int, version: int, expected: tuple[int, int]) -> None:
    control = read_control(only(control_batch(kind, version=version)))
    assert control is not None
    assert (control.type, control.coordinator_epoch) == expected


def test_an_emptied_control_batch_has_no_type() -> None:
    assert read_control(only(batch([], 7, attributes=TRANSACTIONAL | CONTROL, last_offset_delta=0))) is None


@pytest.mark.parametrize(
    "record",
    [
        Rec(None, b"\0\0\0\0\0\3"),
        Rec(b"\0\0", b"\0\0\0\0\0\3"),
        Rec(b"\0\0\0\1", None),
        Rec(b"\xff\xff\0\1", b"\0" * 6),
    ],
    ids=["no key", "short key", "no value", "negative version"],
)
def test_an_incomplete_marker_is_malformed(record: Rec) -> None:
    with pytest.raises(MalformedBatch):
        read_control(only(batch([record], attributes=TRANSACTIONAL | CONTROL)))


RECORDS = [
    Rec(b"k0", b"v0" * 50),
    Rec(None, b"", 1, 5, ((b"h", b"x"), (b"null", None))),
    Rec(b"", None, 7, 2**40),  # compaction removed the records before
]
CODECS = {
    "none": (0, False),
    "gzip": (GZIP, False),
    "snappy raw": (SNAPPY, False),
    "snappy xerial": (SNAPPY, True),
    "lz4": (LZ4, False),
    "zstd": (ZSTD, False),
}


@pytest.mark.parametrize(("codec", "xerial"), CODECS.values(), ids=CODECS.keys())
def test_records_of_every_codec_are_decoded(codec: int, xerial: bool) -> None:
    found = only(batch(RECORDS, 100, timestamp_ms=NOW, attributes=codec, last_offset_delta=9, xerial=xerial))
    assert read_records(found) == [
        Record(100, NOW, 0, b"k0", b"v0" * 50),
        Record(101, NOW + 5, 0, None, b""),
        Record(107, NOW + 2**40, 0, b"", None),
    ]
    assert found.header.next_offset == 110


def test_log_append_time_is_the_time_of_every_record() -> None:
    found = only(batch(RECORDS, attributes=LOG_APPEND_TIME, timestamp_ms=5, max_timestamp_ms=NOW))
    assert {record.timestamp_ms for record in read_records(found)} == {NOW}


def test_timestamps_count_from_the_base_time_beside_a_delete_horizon() -> None:
    found = only(batch([Rec(b"k", None, 0, -100)], attributes=DELETE_HORIZON, timestamp_ms=NOW))
    assert found.header.base_timestamp_ms == NOW
    assert read_records(found)[0].timestamp_ms == NOW - 100


def test_an_emptied_batch_still_moves_the_position() -> None:
    found = only(batch([], 40, timestamp_ms=-1, last_offset_delta=4, base_sequence=2**31 - 3))
    assert read_records(found) == []
    assert (found.header.next_offset, found.header.last_sequence) == (45, 1)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_decompression_bomb_is_refused_before_it_fills_the_memory(codec: int) -> None:
    bomb = compress(codec, bytes(30 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(BadCodec, match=r"(more than|to at most) 1048576 bytes"):
            decompress(codec, bomb, limit=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", [LZ4, ZSTD])
def test_broken_streams_keep_no_memory(codec: int) -> None:
    """A decompressor that leaks address space with each broken batch fails after some thousand broken batches, even if
    the leaked memory is never used."""
    broken = compress(codec, b"plain" * 100)[:-12] + b"no frame"
    before = _address_space()
    for _ in range(40):
        with pytest.raises(BadCodec):
            decompress(codec, broken)
    assert _address_space() - before < 1 << 30


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def test_a_bomb_of_many_xerial_blocks_is_refused() -> None:
    with pytest.raises(BadCodec, match="more than"):
        decompress(SNAPPY, compress(SNAPPY, bytes(3200), xerial=True), limit=3000)
    assert decompress(SNAPPY, compress(SNAPPY, bytes(3200), xerial=True), limit=3200) == bytes(3200)


BAD_STREAMS = {
    "gzip cut": (GZIP, gzip.compress(bytes(1000))[:-9]),
    "gzip garbage": (GZIP, b"no gzip at all"),
    "snappy empty": (SNAPPY, b""),
    "snappy garbage": (SNAPPY, b"\x05garbage"),
    "xerial block longer than the rest": (SNAPPY, b"\x82SNAPPY\0" + bytes(8) + struct.pack(">i", 99) + b"x"),
    "xerial negative block": (SNAPPY, b"\x82SNAPPY\0" + bytes(8) + struct.pack(">i", -1) + b"x"),
    "xerial half a size": (SNAPPY, b"\x82SNAPPY\0" + bytes(8) + b"\0\0"),
    "lz4 garbage": (LZ4, b"no lz4 at all"),
    "zstd garbage": (ZSTD, b"no zstd at all"),
    "unknown codec": (7, b"?"),
}


@pytest.mark.parametrize(("codec", "payload"), BAD_STREAMS.values(), ids=BAD_STREAMS.keys())
def test_a_stream_that_does_not_decompress_is_a_bad_codec(codec: int, payload: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        read_records(only(raw_batch(payload, attributes=codec, count=1)))
    assert caught.value.reason == "bad_codec"


GOOD = batch([Rec(b"k", b"v")], 5)


def replaced(at: int, new: bytes) -> bytes:
    return GOOD[:at] + new + GOOD[at + len(new) :]


BAD_BATCHES = {
    "length 0": (replaced(8, bytes(4)), "bad_length", None),
    "negative length": (replaced(8, b"\xff\xff\xff\xff"), "bad_length", None),
    "length below the header's": (replaced(8, struct.pack(">i", 48)), "bad_length", None),
    "flipped bit": (replaced(40, bytes([GOOD[40] ^ 1])), "bad_crc", len(GOOD)),
    "flipped bit in the checksum": (replaced(17, bytes([GOOD[17] ^ 1])), "bad_crc", len(GOOD)),
    "message format 1": (replaced(16, b"\1"), "unsupported_magic", len(GOOD)),
    "small message format 0": (bytes(8) + struct.pack(">i", 14) + bytes(14), "unsupported_magic", 26),
    "negative record count": (raw_batch(b"", 5, count=-1), "malformed_batch", 61),
    "negative last offset": (raw_batch(b"", 5, count=0, last_offset_delta=-1), "malformed_batch", 61),
    "negative offset": (batch([], -5), "bad_offset", 61),
    "offset past the last one": (batch([], 2**63 - 2, last_offset_delta=5), "bad_offset", 61),
}


@pytest.mark.parametrize(("data", "reason", "size"), BAD_BATCHES.values(), ids=BAD_BATCHES.keys())
def test_a_bad_batch_has_its_reason_and_size(data: bytes, reason: str, size: int | None) -> None:
    found = bad(data)
    assert (found.error.reason, found.size) == (reason, size)


def test_an_offset_that_goes_back_is_bad() -> None:
    _, first, second, third = read_batches(
        batch([], 5) + batch([], 6, last_offset_delta=2) + batch([], 6) + batch([], 9)
    )
    assert isinstance(second, BadBatch)
    assert second.error.reason == "bad_offset"
    assert (isinstance(first, Batch), isinstance(third, Batch)) == (True, True)


@pytest.mark.parametrize(
    "wrong",
    [batch([], 2**56 + 6), batch([], 7), batch([], 6, last_offset_delta=2**31 - 1)],
    ids=["far", "near", "long"],
)
@pytest.mark.parametrize("between", [b"", bytes(8) + struct.pack(">i", 14) + bytes(14)], ids=["", "a bad one"])
def test_an_offset_that_jumps_ahead_spoils_no_later_batch(wrong: bytes, between: bytes) -> None:
    """The checksum of a batch does not cover its base offset. So the checksum stays valid if a bit of the base offset
    is flipped."""
    found = list(read_batches(batch([], 5) + wrong + between + batch([], 7) + batch([], 8)))
    assert [batch.base_offset for batch in found if isinstance(batch, Batch)] == [5, 7, 8]
    assert isinstance(found[1], BadBatch)
    assert found[1].error.reason == "bad_offset"


def test_a_batch_at_the_expected_offset_comes_before_other_batches() -> None:
    """The fuzzer found this case: after a wrong length, the next bytes happened to be a valid batch with another
    offset."""
    found = list(read_batches(batch([], 5) + batch([], 9) + batch([], 6) + batch([], 7)))
    assert [batch.base_offset for batch in found if isinstance(batch, Batch)] == [5, 6, 7]


def test_an_empty_batch_with_bytes_after_its_header_is_malformed() -> None:
    with pytest.raises(MalformedBatch, match="9 bytes"):
        read_records(only(raw_batch(Rec(b"k", b"v").encode(), count=0)))


def test_a_partial_tail_ends_the_buffer_wherever_it_is_cut() -> None:
    for size in range(len(GOOD)):
        (found,) = read_batches(batch([], 1) + GOOD[:size])
        assert isinstance(found, Batch)


BAD_RECORDS = {
    "fewer than announced": raw_batch(Rec(b"k", b"v").encode(), count=2, last_offset_delta=1),
    "more than announced": raw_batch(Rec(b"k", b"v").encode() * 2, count=1),
    "one cut": raw_batch(Rec(b"k", b"v").encode()[:-1], count=1),
    "length too small": raw_batch(b"\x02" + Rec(b"k", b"v").encode()[1:], count=1),
    "key longer than the record": raw_batch(b"\x0a\x00\x00\x00\x7ek", count=1),
    "negative header count": raw_batch(b"\x0c\x00\x00\x00\x01\x01\x01", count=1),
    "null header name": raw_batch(b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", count=1),
    "offset outside the batch": batch([Rec(b"k", b"v", 3)], last_offset_delta=2),
    "negative offset delta": batch([Rec(b"k", b"v", -1)], 5, last_offset_delta=2),
    "the same offset twice": batch([Rec(b"k", b"v", 1), Rec(b"k", b"v", 1)]),
}


@pytest.mark.parametrize("data", BAD_RECORDS.values(), ids=BAD_RECORDS.keys())
def test_records_that_do_not_fit_their_batch_are_malformed(data: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        read_records(only(data))
    assert caught.value.reason == "malformed_batch"

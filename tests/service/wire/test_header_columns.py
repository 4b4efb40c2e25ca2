"""Tests that headers decoded as columns equal the headers of whole batches, and that decoding stops at invalid
bytes."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from service.wire.batches import HEADER_SIZE, Batch, read_batches
from service.wire.header_columns import header_columns, marker_at, read_headers
from service.wire.records import ABORT, COMMIT
from tests.helpers.builders.batches import CONTROL, TRANSACTIONAL, ZSTD, Rec, batch, control_batch, raw_batch
from tests.service.wire.dumps import name_of, read_dump, segments

PLAIN = batch([Rec(b"k", b"v" * 9), Rec(b"k", b"v", 1)], 5, timestamp_ms=1_000)
PACKED = batch([Rec(b"k", b"v" * 500, n) for n in range(9)], 7, attributes=TRANSACTIONAL | ZSTD, producer_id=2**62)
COMMITTED = control_batch(COMMIT, 16, producer_id=7, producer_epoch=3, coordinator_epoch=4, timestamp_ms=9_000)
ABORTED = control_batch(ABORT, 17, producer_id=8)
COMPACTED = batch([Rec(b"k", b"v", 3)], 18, last_offset_delta=6)
LOG = PLAIN + PACKED + COMMITTED + ABORTED + COMPACTED


def test_header_columns_equal_the_headers_of_whole_batches() -> None:
    found = header_columns(LOG)
    whole = [batch for batch in read_batches(LOG, 5) if isinstance(batch, Batch)]
    assert found.position.tolist() == [batch.position for batch in whole]
    assert found.size.tolist() == [batch.size for batch in whole]
    assert found.next_offset.tolist() == [batch.header.next_offset for batch in whole]
    assert found.records.tolist() == [2, 9, 1, 1, 1]
    assert found.max_timestamp_ms.tolist() == [batch.header.max_timestamp_ms for batch in whole]
    assert found.producer_id.tolist() == [batch.header.producer_id for batch in whole]
    assert found.is_transactional.tolist() == [False, True, True, True, False]
    assert found.is_control.tolist() == [False, False, True, True, False]


def test_markers_in_control_batches_are_decoded() -> None:
    found = header_columns(LOG)
    said = [marker_at(LOG, *place) for place in zip(found.position.tolist(), found.size.tolist(), strict=True)]
    assert [record and record.type for record in said[2:4]] == [COMMIT, ABORT]
    assert said[2] == (16, 9_000, COMMIT, 4)


@pytest.mark.parametrize(
    "control",
    [
        control_batch(5, 0),  # from KRaft's own log
        raw_batch(b"", count=0, attributes=TRANSACTIONAL | CONTROL),  # emptied by compaction
        COMMITTED[:17] + b"\0\0\0\0" + COMMITTED[21:],  # damaged
        raw_batch(b"\x02\x00", count=1, attributes=TRANSACTIONAL | CONTROL),
    ],
)
def test_a_control_batch_without_a_marker_gives_none(control: bytes) -> None:
    assert marker_at(control, 0, len(control)) is None


@pytest.mark.parametrize("cut", [0, 11, 60, 61, len(PACKED) - 1])
def test_a_batch_that_the_fetch_cut_is_left_for_the_next(cut: int) -> None:
    assert header_columns(PLAIN + PACKED[:cut]).next_offset.tolist() == [7]
    assert header_columns(PACKED[:cut]).next_offset.tolist() == []


@pytest.mark.parametrize(
    "broken",
    [
        PACKED[:16] + b"\1" + PACKED[17:],
        PACKED[:8] + struct.pack(">i", 5) + PACKED[12:],
        PACKED[:23] + struct.pack(">i", -1) + PACKED[27:],
        struct.pack(">q", 6) + PACKED[8:],
        struct.pack(">q", -1) + PACKED[8:],
        struct.pack(">q", 2**63 - 1) + PACKED[8:],
        PACKED[:57] + struct.pack(">i", -2) + PACKED[61:],
    ],
)
def test_header_columns_end_before_a_broken_batch(broken: bytes) -> None:
    assert header_columns(PLAIN + broken + COMMITTED).next_offset.tolist() == [7]


@pytest.mark.parametrize("log", segments(), ids=name_of)
def test_header_columns_equal_the_dump_of_kafkas_tool(log: Path) -> None:
    data, dump = log.read_bytes(), read_dump(log)
    found = header_columns(data)
    reported = [batch.words for batch in dump.batches]
    rows = slice(len(reported))
    assert found.position[rows].tolist() == [int(words["position"]) for words in reported]
    assert found.size[rows].tolist() == [int(words["size"]) for words in reported]
    assert found.next_offset[rows].tolist() == [int(words["lastOffset"]) + 1 for words in reported]
    assert found.records[rows].tolist() == [int(words["count"]) for words in reported]
    assert found.producer_id[rows].tolist() == [int(words["producerId"]) for words in reported]
    assert found.producer_epoch[rows].tolist() == [int(words["producerEpoch"]) for words in reported]
    assert found.is_transactional[rows].tolist() == [words["isTransactional"] == "true" for words in reported]
    assert found.is_control[rows].tolist() == [words["isControl"] == "true" for words in reported]
    for row, (words, records) in enumerate(dump.batches):
        if words["isControl"] == "true" and records and records[0].marker:
            control = marker_at(data, int(found.position[row]), int(found.size[row]))
            assert control is not None
            said = "COMMIT" if control.type == COMMIT else "ABORT"
            assert (said, control.coordinator_epoch) == records[0].marker
            assert (control.offset, control.timestamp_ms) == (records[0].offset, records[0].timestamp_ms)


FIRST = batch([Rec(b"k", b"v" * 100), Rec(b"k", b"v", 1)], 5, attributes=TRANSACTIONAL, producer_id=7, producer_epoch=1)
SECOND = control_batch(COMMIT, 7, producer_id=7)


def test_headers_read_alone_equal_those_of_whole_batches() -> None:
    batches = [batch for batch in read_batches(FIRST + SECOND, 5) if isinstance(batch, Batch)]
    assert list(read_headers(FIRST + SECOND)) == [batch.header for batch in batches]


@pytest.mark.parametrize(
    "cut", [HEADER_SIZE, HEADER_SIZE + 1, len(FIRST) - 1, len(FIRST), len(FIRST) + HEADER_SIZE - 1]
)
def test_the_header_of_a_batch_that_is_cut_is_read(cut: int) -> None:
    assert [header.base_offset for header in read_headers((FIRST + SECOND)[:cut])] == [5]


@pytest.mark.parametrize(
    "broken",
    [
        FIRST[:16] + b"\1" + FIRST[17:],
        FIRST[:8] + b"\0\0\0\0" + FIRST[12:],
        FIRST[:23] + b"\xff" * 4 + FIRST[27:],
        b"\xff" * 61,
        b"",
    ],
)
def test_reading_headers_ends_before_a_broken_header(broken: bytes) -> None:
    assert list(read_headers(broken)) == []
    assert len(list(read_headers(SECOND + broken))) == 1

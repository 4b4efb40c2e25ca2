"""Tests of the columnar decoder. For any log, also with invalid and unusual batches, its result equals that of the
scalar decoder."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.wire import batches, scalar, vectors
from service.wire.columns import decode
from service.wire.log_columns import RAW_LIMIT, TOMBSTONE, UNDECODABLE, VALUE, Chunk, Reject, holes
from tests.helpers.builders import transaction_log as build
from tests.helpers.builders.batches import COMMIT, GZIP, LOG_APPEND_TIME, Rec, batch, control_batch
from tests.service.wire.comparing import assert_same_as_scalar
from tests.service.wire.logs import random_chunks
from tests.service.wire.test_batches import BAD_BATCHES, BAD_RECORDS
from tests.service.wire.test_transaction_log import BAD_KEYS, BAD_VALUES

END = 2**62
VALUE_V1 = build.value(topics=[("t", [1, 2]), ("u", [0])], tagged=build.tags(1, 2, 2, 3) | {9: b"x"})


def log(*offsets: int, transactional_id: str = "a") -> bytes:
    return b"".join(
        build.transition(transactional_id, offset, timestamp_ms=1000 + offset, data=build.value(producer_id=offset))
        for offset in offsets
    )


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@given(st.integers(0, 2**64))
@settings(max_examples=300)
def test_vectorised_and_scalar_decoding_agree_on_any_log(seed: int) -> None:
    assert_same_as_scalar(random_chunks(seed))


@given(st.integers(0, 2**64))
@settings(max_examples=100)
def test_vectorised_and_scalar_decoding_agree_for_small_blocks(seed: int) -> None:
    with patch.object(vectors, "BLOCK", 2), patch.object(batches, "BLOCK", 300):
        assert_same_as_scalar(random_chunks(seed))


@given(st.lists(st.binary(max_size=300), max_size=3))
@example([b"\0" * 300])
@example([b"\xff" * 300])
@settings(max_examples=100)
def test_vectorised_and_scalar_decoding_agree_on_any_bytes(pieces: list[bytes]) -> None:
    assert_same_as_scalar([Chunk(number, 0, END, data) for number, data in enumerate(pieces)])


@given(st.data(), st.sampled_from([0, 1]))
@settings(max_examples=150)
def test_a_damaged_batch_does_not_affect_its_neighbours(data: st.DataObject, version: int) -> None:
    """The changed byte lies after the length of its batch. The checksum does not cover the leader epoch. If the changed
    byte is in the leader epoch, the batch is still decoded. Otherwise the batch is reported."""
    middle = build.transition("b", 1, timestamp_ms=5, data=build.value(version, topics=[("t", [1])]))
    at = data.draw(st.integers(12, len(middle) - 1))
    damaged = middle[:at] + bytes([middle[at] ^ data.draw(st.integers(1, 255))]) + middle[at + 1 :]
    columns = assert_same_as_scalar([Chunk(0, 0, END, log(0) + damaged + log(2, 3))])
    assert {0, 2, 3} <= set(columns.offset.tolist())
    assert len(columns) + len(columns.broken) == 4
    assert columns.next_offsets == {0: 4}


def test_vectorised_and_scalar_decoding_agree_on_every_bad_input() -> None:
    """Each invalid input of the scalar tests is placed once between valid batches, and once alone in a chunk."""
    values = [data for data, _ in BAD_VALUES.values()] + [VALUE_V1[:size] for size in range(len(VALUE_V1))]
    records = [Rec(build.key("b"), data) for data in values] + [Rec(data, b"v") for data, _ in BAD_KEYS.values()]
    damaged = [batch([record], 1) for record in records]
    damaged += [data for data, _, _ in BAD_BATCHES.values()] + list(BAD_RECORDS.values())
    for data in damaged:
        between = assert_same_as_scalar([Chunk(0, 0, END, log(0) + data + log(20))])
        last = assert_same_as_scalar([Chunk(0, 0, END, log(0)), Chunk(1, 0, 2**63 - 1, data)])
        assert between.offset[0] == 0
        assert last.rejects or last.broken


def test_a_row_has_every_field_of_its_record() -> None:
    value = build.value(
        topics=[("t", [1, 2]), ("u", [0])], tagged=build.tags(7, 8, 2, 9), status=2, last_update_ms=50, start_ms=40
    )
    columns = decode([Chunk(11, 5, 6, build.transition("a", 5, timestamp_ms=60, leader_epoch=3, data=value))])
    expected = {
        "partition": 11,
        "offset": 5,
        "timestamp_ms": 60,
        "leader_epoch": 3,
        "kind": VALUE,
        "producer_id": 4001,
        "producer_epoch": 7,
        "timeout_ms": 60_000,
        "status": 2,
        "last_update_ms": 50,
        "start_ms": 40,
        "client_transaction_version": 2,
        "previous_producer_id": 7,
        "next_producer_id": 8,
        "next_producer_epoch": 9,
        "partition_count": 3,
    }
    assert {name: getattr(columns, name).tolist() for name in expected} == {n: [v] for n, v in expected.items()}
    assert columns.transactional_ids.get(0) == b"a"
    assert columns.participants(0) == (("t", (1, 2)), ("u", (0,)))


def test_rows_are_found_by_their_id() -> None:
    records = [build.transition(name, at, timestamp_ms=9, data=None) for at, name in enumerate(["ab", "b", "", "ab"])]
    ids = decode([Chunk(0, 0, END, b"".join(records))]).transactional_ids
    found = {name: ids.equal(name).tolist() for name in (b"ab", b"b", b"", b"ac", b"abc")}
    assert found == {b"ab": [0, 3], b"b": [1], b"": [2], b"ac": [], b"abc": []}


def test_a_tombstone_has_no_fields() -> None:
    columns = assert_same_as_scalar([Chunk(0, 0, END, build.transition("a", 0, timestamp_ms=9, data=None))])
    assert columns.kind.tolist() == [TOMBSTONE]
    assert (columns.producer_id[0], columns.status[0], columns.start_ms[0]) == (-1, -1, -1)
    assert (columns.client_transaction_version[0], columns.partition_count[0]) == (0, 0)
    assert columns.participants(0) == ()


def test_an_unknown_value_keeps_its_id_and_an_unknown_key_is_only_rejected() -> None:
    future = build.key("b", version=5)
    data = log(0) + build.transition("b", 1, timestamp_ms=9, data=b"\0\7rest") + batch([Rec(future, b"v")], 2) + log(3)
    columns = assert_same_as_scalar([Chunk(4, 0, END, data)])
    assert columns.offset.tolist() == [0, 1, 3]
    assert columns.kind.tolist() == [VALUE, UNDECODABLE, VALUE]
    assert columns.rejects == (
        Reject(4, 1, "unknown_value_version", b"b", build.key("b"), b"\0\7rest"),
        Reject(4, 2, "unknown_key_version", None, future, b"v"),
    )
    assert not columns.broken


def test_rejected_bytes_are_bounded() -> None:
    columns = decode([Chunk(0, 0, END, batch([Rec(build.key("a"), b"\0\7" + bytes(RAW_LIMIT))]))])
    assert columns.rejects[0].value == b"\0\7" + bytes(RAW_LIMIT - 2)
    (broken,) = decode([Chunk(0, 0, END, flipped(batch([Rec(b"k", bytes(RAW_LIMIT))]), 99))]).broken
    assert len(broken.raw) == RAW_LIMIT


def test_a_broken_batch_is_reported_and_its_neighbours_are_delivered() -> None:
    bad = flipped(log(1), 70)
    columns = assert_same_as_scalar([Chunk(0, 0, END, log(0) + bad + log(5)), Chunk(1, 0, END, log(0, 1))])
    assert columns.offset.tolist() == [0, 5, 0, 1]
    (broken,) = columns.broken
    assert broken == (0, 1, "bad_crc", 5, bad)
    assert columns.next_offsets == {0: 6, 1: 2}
    assert columns.batches == 5


def test_a_broken_last_batch_keeps_the_position_within_the_request() -> None:
    absurd = log(1)[:23] + b"\x7f\0\0\0" + log(1)[27:]  # a last offset delta that does not fit the checksum
    columns = assert_same_as_scalar([Chunk(0, 0, 10, log(0) + absurd)])
    assert [batch.resume_offset for batch in columns.broken] == [10]
    assert columns.next_offsets == {0: 10}


def test_a_wrong_length_ends_only_its_own_chunk() -> None:
    bad = log(1)[:8] + b"\0\0\0\5" + log(1)[12:]
    columns = assert_same_as_scalar([Chunk(0, 0, END, log(0) + bad + log(2)), Chunk(1, 0, END, log(7))])
    assert columns.offset.tolist() == [0, 7]
    assert [(batch.offset, batch.reason, batch.resume_offset) for batch in columns.broken] == [(1, "bad_length", None)]
    assert columns.next_offsets == {0: 1, 1: 8}


def test_damage_outside_the_range_is_not_reported() -> None:
    columns = assert_same_as_scalar([Chunk(0, 0, 2, log(0, 1) + flipped(log(2), 70))])
    assert columns.broken == ()
    assert columns.next_offsets == {0: 2}


def test_only_records_of_the_range_are_delivered() -> None:
    several = batch([Rec(build.key("a"), None, delta) for delta in range(6)], 10)
    columns = assert_same_as_scalar([Chunk(0, 12, 14, log(9) + several + log(16))])
    assert columns.offset.tolist() == [12, 13]
    assert columns.next_offsets == {0: 14}


def test_empty_batches_control_batches_and_holes_are_progress() -> None:
    data = log(3) + control_batch(COMMIT, 8) + batch([], 10, last_offset_delta=9)
    columns = assert_same_as_scalar([Chunk(0, 0, END, data), Chunk(1, 6, END, b"")])
    assert columns.offset.tolist() == [3]
    assert columns.next_offsets == {0: 20, 1: 6}
    assert (columns.batches, columns.bytes) == (3, len(data))


def test_a_partial_tail_is_left_for_the_next_fetch() -> None:
    columns = assert_same_as_scalar([Chunk(0, 0, END, log(0) + log(1)[:-1])])
    assert columns.next_offsets == {0: 1}
    assert columns.bytes == len(log(0))
    assert not columns.broken


def test_compressed_batches_and_their_neighbours_are_in_order() -> None:
    squeezed = batch([Rec(build.key("b"), build.value(), 0), Rec(build.key("c"), None, 1)], 1, attributes=GZIP)
    columns = assert_same_as_scalar([Chunk(0, 0, END, log(0) + squeezed + log(3)), Chunk(1, 0, END, log(0))])
    assert columns.offset.tolist() == [0, 1, 2, 3, 0]
    assert [columns.transactional_ids.get(row) for row in range(5)] == [b"a", b"b", b"c", b"a", b"a"]


def test_log_append_time_is_the_time_of_a_row() -> None:
    stamped = batch([Rec(build.key("a"), None)], attributes=LOG_APPEND_TIME, timestamp_ms=5, max_timestamp_ms=77)
    assert decode([Chunk(0, 0, END, stamped)]).timestamp_ms.tolist() == [77]


def test_several_chunks_of_a_partition_give_the_furthest_position() -> None:
    columns = assert_same_as_scalar([Chunk(0, 0, END, log(0, 1)), Chunk(0, 2, END, log(2)), Chunk(0, 3, END, b"")])
    assert columns.next_offsets == {0: 3}


def test_no_chunks_give_empty_columns() -> None:
    columns = assert_same_as_scalar([])
    assert len(columns) == 0
    assert columns.next_offsets == {}


def test_an_expiry_sweep_needs_no_scalar_decoding() -> None:
    """The batch has hundreds of tombstones. The broker's removeExpiredTransactionalIds writes such batches."""
    sweep = batch([Rec(build.key(f"id-{delta}"), None, delta) for delta in range(400)], 50)
    with patch.object(scalar, "locate", side_effect=AssertionError):
        columns = decode([Chunk(0, 0, END, log(0) + sweep)])
    assert columns.offset.tolist() == [0, *range(50, 450)]
    assert columns.transactional_ids.get(400) == b"id-399"


@pytest.mark.parametrize("wrong", [[], [0], [4], [1, 2], [0, 1, 2, 3, 4]], ids=str)
def test_wrong_checksums_are_found_among_many_batches(wrong: list[int]) -> None:
    """The same bit may be flipped in several batches. An XOR of all checksums would miss this case."""
    pieces = [flipped(log(n), 70) if n in wrong else log(n) for n in range(5)]
    size = np.array([len(piece) for piece in pieces])
    data = np.frombuffer(b"".join(pieces), np.uint8)
    crc = np.array([int.from_bytes(piece[17:21], "big") for piece in pieces], np.uint32)
    assert np.flatnonzero(batches.has_wrong_checksum(data, np.cumsum(size) - size, size, crc)).tolist() == wrong


@pytest.mark.parametrize(
    ("offsets", "lo", "hi", "found"),
    [
        ([3, 4, 5], 3, 6, []),
        ([], 3, 6, [(3, 6)]),
        ([4, 7], 3, 9, [(3, 4), (5, 7), (8, 9)]),
        ([], 3, 3, []),
    ],
    ids=["none", "all of it", "before, between and behind", "nothing asked for"],
)
def test_holes_are_the_ranges_without_a_record(
    offsets: list[int], lo: int, hi: int, found: list[tuple[int, int]]
) -> None:
    starts, ends = holes(np.array(offsets, dtype=np.int64), lo, hi)
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == found

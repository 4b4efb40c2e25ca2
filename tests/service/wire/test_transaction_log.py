"""Tests of keys and values of the transaction log: worked examples in bytes, and the rules of Kafka's generated
readers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.wire.errors import DecodeError
from service.wire.transaction_log import TransactionValue, decode_key, decode_value
from tests.helpers.builders import transaction_log as build
from tests.helpers.builders.transaction_log import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)

PID, EPOCH, TIMEOUT = 4001, 7, 60_000
UPDATED, STARTED = 1_700_000_001_500, 1_700_000_000_000
BOTH = (("orders", (0, 3)), ("__consumer_offsets", (12,)))

HEAD_V0 = "0000 0000000000000fa1 0007 0000ea60"
HEAD_V1 = "0001 0000000000000fa1 0007 0000ea60"
HEAD_V1_BUMPED = "0001 0000000000000fa1 0008 0000ea60"
HEAD_V1_LAST_EPOCH = "0001 0000000000000fa1 7fff 0000ea60"
UPDATE_HEX, START_HEX, NO_START_HEX = "0000018bcfe56ddc", "0000018bcfe56800", "ffffffffffffffff"
TIMES = f"{UPDATE_HEX} {START_HEX}"
ORDERS, OFFSETS = "6f7264657273", "5f5f636f6e73756d65725f6f666673657473"
TOPICS_V0 = f"00000002 0006 {ORDERS} 00000002 00000000 00000003 0012 {OFFSETS} 00000001 0000000c"
TOPICS_V1 = f"03 07 {ORDERS} 03 00000000 00000003 00 13 {OFFSETS} 02 0000000c 00"

WORKED = {
    "v0 Ongoing": (
        f"{HEAD_V0} 01 {TOPICS_V0} {TIMES}",
        TransactionValue(0, PID, EPOCH, TIMEOUT, ONGOING, BOTH, UPDATED, STARTED),
    ),
    "v0 Empty": (
        f"{HEAD_V0} 00 ffffffff {UPDATE_HEX} {NO_START_HEX}",
        TransactionValue(0, PID, EPOCH, TIMEOUT, EMPTY, None, UPDATED, -1),
    ),
    "v0 CompleteCommit": (
        f"{HEAD_V0} 04 00000000 {TIMES}",
        TransactionValue(0, PID, EPOCH, TIMEOUT, COMPLETE_COMMIT, (), UPDATED, STARTED),
    ),
    "v1 Ongoing": (
        f"{HEAD_V1} 01 {TOPICS_V1} {TIMES} 00",
        TransactionValue(1, PID, EPOCH, TIMEOUT, ONGOING, BOTH, UPDATED, STARTED),
    ),
    "v1 Empty": (
        f"{HEAD_V1} 00 00 {UPDATE_HEX} {NO_START_HEX} 00",
        TransactionValue(1, PID, EPOCH, TIMEOUT, EMPTY, None, UPDATED, -1),
    ),
    "v1 CompleteCommit": (
        f"{HEAD_V1} 04 01 {TIMES} 00",
        TransactionValue(1, PID, EPOCH, TIMEOUT, COMPLETE_COMMIT, (), UPDATED, STARTED),
    ),
    "v1 PrepareCommit of 4.0": (
        f"{HEAD_V1_BUMPED} 02 {TOPICS_V1} {TIMES} 01 02 02 0002",
        TransactionValue(1, PID, 8, TIMEOUT, PREPARE_COMMIT, BOTH, UPDATED, STARTED, client_transaction_version=2),
    ),
    "v1 PrepareCommit of 4.3": (
        f"{HEAD_V1_BUMPED} 02 {TOPICS_V1} {TIMES} 02 00 08 0000000000000fa1 02 02 0002",
        TransactionValue(1, PID, 8, TIMEOUT, PREPARE_COMMIT, BOTH, UPDATED, STARTED, PID, -1, 2),
    ),
    "v1 PrepareAbort, epochs exhausted": (
        f"{HEAD_V1_LAST_EPOCH} 03 01 {TIMES} 03 00 08 0000000000000fa1 01 08 0000000000002328 02 02 0002",
        TransactionValue(1, PID, 32767, TIMEOUT, PREPARE_ABORT, (), UPDATED, STARTED, PID, 9000, 2),
    ),
    "v1 CompleteAbort, new producer id": (
        f"0001 0000000000002328 0000 0000ea60 05 01 {TIMES} 02 00 08 0000000000000fa1 02 02 0002",
        TransactionValue(1, 9000, 0, TIMEOUT, COMPLETE_ABORT, (), UPDATED, STARTED, PID, -1, 2),
    ),
}


@pytest.mark.parametrize(("text", "expected"), WORKED.values(), ids=WORKED.keys())
def test_the_worked_examples_of_values_are_decoded(text: str, expected: TransactionValue) -> None:
    assert decode_value(bytes.fromhex(text)) == expected


def test_the_worked_example_of_a_key_is_decoded() -> None:
    assert decode_key(bytes.fromhex("0000 000a 6f726465722d74782d31")) == b"order-tx-1"


def test_the_worked_examples_have_the_sizes_of_the_specification() -> None:
    assert [len(bytes.fromhex(WORKED[name][0])) for name in ("v0 Ongoing", "v0 Empty", "v1 Ongoing", "v1 Empty")] == [
        85,
        37,
        77,
        35,
    ]


names = st.text(st.characters(codec="utf-8"), max_size=20)
topics = st.lists(st.tuples(names, st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple)), max_size=3).map(tuple)
longs = st.integers(-(2**63), 2**63 - 1)
shorts = st.integers(-(2**15), 2**15 - 1)


@given(
    version=st.integers(0, 1),
    producer_id=longs,
    producer_epoch=shorts,
    timeout_ms=st.integers(-(2**31), 2**31 - 1),
    status=st.integers(0, 5),
    partitions=st.none() | topics,
    times=st.tuples(longs, longs),
    tagged=st.tuples(*[st.none() | longs] * 2, *[st.none() | shorts] * 2),
    unknown=st.dictionaries(st.integers(4, 2**31 - 1), st.binary(max_size=5), max_size=3),
    topic_tagged=st.dictionaries(st.integers(0, 9), st.binary(max_size=5), max_size=2),
)
def test_a_built_value_is_decoded_unchanged(
    version: int,
    producer_id: int,
    producer_epoch: int,
    timeout_ms: int,
    status: int,
    partitions: tuple[tuple[str, tuple[int, ...]], ...] | None,
    times: tuple[int, int],
    tagged: tuple[int | None, int | None, int | None, int | None],
    unknown: dict[int, bytes],
    topic_tagged: dict[int, bytes],
) -> None:
    data = build.value(
        version,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timeout_ms=timeout_ms,
        status=status,
        topics=partitions,
        last_update_ms=times[0],
        start_ms=times[1],
        tagged=build.tags(*tagged) | unknown,
        topic_tagged=topic_tagged,
    )
    known = [
        default if field is None or version == 0 else field
        for field, default in zip(tagged, (-1, -1, 0, -1), strict=True)
    ]
    assert decode_value(data) == TransactionValue(
        version, producer_id, producer_epoch, timeout_ms, status, partitions, *times, *known
    )


@given(st.binary(max_size=200))
def test_any_id_is_kept_byte_for_byte(transactional_id: bytes) -> None:
    assert decode_key(build.key(transactional_id)) == transactional_id


def test_a_topic_name_that_is_not_utf8_is_kept() -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    partitions = decode_value(build.value(topics=[(name, [1])])).partitions
    assert partitions is not None
    assert partitions[0][0].encode("utf-8", "surrogateescape") == b"caf\xe9"


@pytest.mark.parametrize("version", [0, 1])
def test_bytes_after_a_value_are_ignored_as_kafka_does(version: int) -> None:
    assert decode_value(build.value(version) + b"more").producer_id == PID


def test_bytes_after_a_key_are_ignored_as_kafka_does() -> None:
    assert decode_key(build.key("a") + b"more") == b"a"


def test_the_last_one_of_a_repeated_tag_counts() -> None:
    assert decode_value(build.value()[:-1] + bytes.fromhex("02 02020001 02020002")).client_transaction_version == 2


@pytest.mark.parametrize("tag", [0, 1, 2, 3])
def test_a_known_tag_of_a_wrong_size_is_refused(tag: int) -> None:
    with pytest.raises(DecodeError, match=f"tag {tag} has 3 bytes") as caught:
        decode_value(build.value(tagged={tag: b"abc"}))
    assert caught.value.reason == "malformed_value"


BAD_KEYS = {
    "null": (None, "null_key"),
    "empty": (b"", "malformed_key"),
    "half a version": (b"\0", "malformed_key"),
    "no size": (b"\0\0", "malformed_key"),
    "null id": (bytes.fromhex("0000 ffff"), "malformed_key"),
    "id cut": (build.key("order")[:-1], "malformed_key"),
    "future": (build.key("order", version=5), "unknown_key_version"),
    "future of two bytes": (b"\0\1", "unknown_key_version"),
}


@pytest.mark.parametrize(("data", "reason"), BAD_KEYS.values(), ids=BAD_KEYS.keys())
def test_a_bad_key_has_its_reason(data: bytes | None, reason: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_key(data)
    assert caught.value.reason == reason


BAD_VALUES = {
    "empty": (b"", "malformed_value"),
    "future": (bytes.fromhex("0002"), "unknown_value_version"),
    "negative version": (bytes.fromhex("ffff") + build.value()[2:], "unknown_value_version"),
    "Dead": (build.value(status=6), "malformed_value"),
    "PrepareEpochFence": (build.value(status=7), "malformed_value"),
    "negative status": (build.value(status=-1), "malformed_value"),
    "v0 null topic": (bytes.fromhex(f"{HEAD_V0} 01 00000001 ffff 00000000 {TIMES}"), "malformed_value"),
    "v0 null partitions": (bytes.fromhex(f"{HEAD_V0} 01 00000001 0000 ffffffff {TIMES}"), "malformed_value"),
    "v1 null topic": (bytes.fromhex(f"{HEAD_V1} 01 02 00 01 00 {TIMES} 00"), "malformed_value"),
    "v1 null partitions": (bytes.fromhex(f"{HEAD_V1} 01 02 01 00 00 {TIMES} 00"), "malformed_value"),
    "two billion topics": (bytes.fromhex(f"{HEAD_V0} 01 7fffffff {TIMES}"), "malformed_value"),
    "endless varint": (bytes.fromhex(f"{HEAD_V1} 01 ffffffffff01"), "malformed_value"),
    "tag longer than the value": (build.value()[:-1] + bytes.fromhex("01 09 05 00"), "malformed_value"),
    "two tags, the first far longer than the value": (
        build.value()[:-1] + bytes.fromhex("02 09 ffff7f 00"),
        "malformed_value",
    ),
}


@pytest.mark.parametrize(("data", "reason"), BAD_VALUES.values(), ids=BAD_VALUES.keys())
def test_a_bad_value_has_its_reason(data: bytes, reason: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_value(data)
    assert caught.value.reason == reason


@pytest.mark.parametrize("version", [0, 1])
def test_a_value_cut_anywhere_is_malformed(version: int) -> None:
    data = build.value(version, topics=BOTH, tagged=build.tags(1, 2, 2, 3) | {9: b"x"})
    for size in range(2, len(data)):
        with pytest.raises(DecodeError) as caught:
            decode_value(data[:size])
        assert caught.value.reason == "malformed_value"

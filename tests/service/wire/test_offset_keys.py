"""Tests of keys of `__consumer_offsets`: bytes of real group coordinators, and the rules of Kafka's readers."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.wire.batches import Batch, read_batches
from service.wire.errors import DecodeError
from service.wire.offset_keys import OffsetKey, decode_offset_key
from service.wire.records import read_records

WRITTEN = {
    "4.3.1": (
        "0000000000000000000000ab00000000021c9727f4001000000001000001a2055aa27e000001a2055aa27e00000000000000000000"
        "0000000000000002780000003c0001000c6e657665722d6265666f72650008652d6f72646572730000000030000400000000000000"
        "07ffffffff01000001a2055aa2750000780000023c0001000c6e657665722d6265666f72650008652d6f7264657273000000013000"
        "040000000000000008ffffffff01000001a2055aa2750000"
    ),
    "3.9.2": (
        "0000000000000000000000ab00000000022c4919cc001000000001000001a2055ac382000001a2055ac38200000000000000000000"
        "0000000000000002780000003c0001000c6e657665722d6265666f72650008652d6f72646572730000000130000300000000000000"
        "08ffffffff0000000001a2055ac37500780000023c0001000c6e657665722d6265666f72650008652d6f7264657273000000003000"
        "030000000000000007ffffffff0000000001a2055ac37500"
    ),
}
"""A mapping from the version of Kafka to the bytes that it logs for one TxnOffsetCommit of the group `never-before`,
with offsets of e-orders-0 and e-orders-1."""


def text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded


def key(kind: int, group: str = "billing", topic: str = "orders", partition: int = 3) -> bytes:
    return struct.pack(">h", kind) + text(group) + text(topic) + struct.pack(">i", partition)


@pytest.mark.parametrize("version", WRITTEN)
def test_offset_keys_that_a_broker_wrote_are_decoded(version: str) -> None:
    (batch,) = read_batches(bytes.fromhex(WRITTEN[version]))
    assert isinstance(batch, Batch)
    assert batch.header.is_transactional
    found = {decode_offset_key(record.key) for record in read_records(batch)}
    assert found == {OffsetKey("never-before", "e-orders", 0), OffsetKey("never-before", "e-orders", 1)}


@pytest.mark.parametrize("kind", [0, 1])
def test_both_versions_of_an_offset_key_have_one_layout(kind: int) -> None:
    assert decode_offset_key(key(kind)) == OffsetKey("billing", "orders", 3)
    assert decode_offset_key(key(kind, "grüße-😀\0", "a.B_9-")) == OffsetKey("grüße-😀\0", "a.B_9-", 3)
    assert decode_offset_key(key(kind) + b"more") == OffsetKey("billing", "orders", 3)


@pytest.mark.parametrize("kind", range(2, 24))
def test_a_key_of_group_metadata_is_no_offset(kind: int) -> None:
    assert decode_offset_key(struct.pack(">h", kind) + text("billing")) is None


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (None, "null_key"),
        (b"", "malformed_key"),
        (key(24), "unknown_key_version"),
        (key(-1), "unknown_key_version"),
        (key(1)[:-1], "malformed_key"),
        (struct.pack(">hh", 1, -1), "malformed_key"),
        (struct.pack(">hh", 1, 9) + b"billing", "malformed_key"),
        (struct.pack(">hh", 1, 1) + b"\xff" + key(1)[11:], "malformed_key"),
        (key(1, topic=""), "malformed_key"),
        (key(1, topic="or\0ders"), "malformed_key"),
        (key(1, topic="o" * 250), "malformed_key"),
        (key(1, partition=-1), "malformed_key"),
    ],
)
def test_a_key_that_is_not_an_offset_key_is_an_error(written: bytes | None, reason: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_offset_key(written)
    assert caught.value.reason == reason


@given(st.binary(max_size=60))
def test_any_bytes_are_an_offset_key_or_an_error(written: bytes) -> None:
    try:
        found = decode_offset_key(written)
    except DecodeError:
        return
    assert found is None or written.startswith((b"\0\0", b"\0\1"))

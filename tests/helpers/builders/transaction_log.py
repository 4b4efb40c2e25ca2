"""Builds keys and values of `__transaction_state`, in any version and with any tags, and batches of one record."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from tests.helpers.builders.batches import Rec, batch
from tests.helpers.builders.numbers import uvarint

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)

Topics = Sequence[tuple[str, Sequence[int]]]


def key(transactional_id: bytes | str, version: int = 0) -> bytes:
    """Returns a key: int16 version, int16 size, and the bytes of the id."""
    data = transactional_id.encode() if isinstance(transactional_id, str) else transactional_id
    return struct.pack(">hh", version, len(data)) + data


def tags(
    previous_producer_id: int | None = None,
    next_producer_id: int | None = None,
    client_transaction_version: int | None = None,
    next_producer_epoch: int | None = None,
) -> dict[int, bytes]:
    """Returns the given tagged fields as Kafka writes them in a value v1: a mapping from tag to bytes."""
    fields = (previous_producer_id, next_producer_id, client_transaction_version, next_producer_epoch)
    return {tag: struct.pack(">q" if tag < 2 else ">h", field) for tag, field in enumerate(fields) if field is not None}


def value(
    version: int = 1,
    *,
    producer_id: int = 4001,
    producer_epoch: int = 7,
    timeout_ms: int = 60_000,
    status: int = ONGOING,
    topics: Topics | None = (),
    last_update_ms: int = 1_700_000_001_500,
    start_ms: int = 1_700_000_000_000,
    tagged: Mapping[int, bytes] | None = None,
    topic_tagged: Mapping[int, bytes] | None = None,
) -> bytes:
    """Returns the value of a record of the transaction log. If `topics` is None, the array of topics is null. Only v1
    has tagged fields: `tagged` in the value, and `topic_tagged` in every topic."""
    head = struct.pack(">hqhib", version, producer_id, producer_epoch, timeout_ms, status)
    times = struct.pack(">qq", last_update_ms, start_ms)
    if version == 0:
        return head + _topics_v0(topics) + times
    return head + _topics_v1(topics, topic_tagged or {}) + times + _tagged(tagged or {})


def transition(
    transactional_id: bytes | str, offset: int, *, timestamp_ms: int, leader_epoch: int = 0, data: bytes | None
) -> bytes:
    """Returns a batch of one record, as the coordinator appends it. If `data` is None, the record is a tombstone."""
    return batch([Rec(key(transactional_id), data)], offset, timestamp_ms=timestamp_ms, leader_epoch=leader_epoch)


def _topics_v0(topics: Topics | None) -> bytes:
    if topics is None:
        return struct.pack(">i", -1)
    out = struct.pack(">i", len(topics))
    for topic, partitions in topics:
        name = topic.encode("utf-8", "surrogateescape")
        out += struct.pack(">h", len(name)) + name + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return out


def _topics_v1(topics: Topics | None, tagged: Mapping[int, bytes]) -> bytes:
    if topics is None:
        return uvarint(0)
    out = uvarint(len(topics) + 1)
    for topic, partitions in topics:
        name = topic.encode("utf-8", "surrogateescape")
        out += uvarint(len(name) + 1) + name
        out += uvarint(len(partitions) + 1) + struct.pack(f">{len(partitions)}i", *partitions) + _tagged(tagged)
    return out


def _tagged(fields: Mapping[int, bytes]) -> bytes:
    """Returns tagged fields: their count, then tag, size and bytes of each field, in the given order. Kafka's order is
    ascending."""
    out = uvarint(len(fields))
    for tag, data in fields.items():
        out += uvarint(tag) + uvarint(len(data)) + data
    return out

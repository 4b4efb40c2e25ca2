"""Who wrote under a producer id, as the coordinators' log tells: the way from an open entry to a name."""

from __future__ import annotations

from typing import NamedTuple


class Told(NamedTuple):
    """An id as its coordinator tells of it (DescribeTransactions): all there is where the log may not be read."""

    transactional_id: bytes
    coordinator: int
    state: int
    producer_id: int
    producer_epoch: int
    partitions: tuple[tuple[str, int], ...]


class Owner(NamedTuple):
    """A transactional.id that has, or once had, the producer id in question; its newest record, field by field.

    `producer_id` is the one it has now. `partitions`: (topic, partition) of its open transaction. `first_seen_ms` to
    `last_epoch`: when and with which epochs it had the producer id in question. `ended_*`: the newest PrepareX with
    partitions under that producer id (`ended_value` as Kafka wrote it); None where none was seen.
    """

    transactional_id: bytes
    log_partition: int
    generation: int
    offset: int
    timestamp_ms: int
    leader_epoch: int
    state: int
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    last_update_ms: int
    client_transaction_version: int
    partitions: tuple[tuple[str, int], ...]
    first_seen_ms: int
    last_seen_ms: int
    first_epoch: int
    last_epoch: int
    ended_offset: int | None
    ended_state: int | None
    ended_value: bytes | None

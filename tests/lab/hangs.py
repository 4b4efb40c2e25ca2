"""Transactions that hang, made on purpose: each function leaves one behind and says what the right answer about it is.

They need a broker without KIP-890's guard (`UNGUARDED`). What they leave behind is checked with the broker every time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from deploy.demo.workload.clients import partition_count
from deploy.demo.workload.old_producer import OldProducer
from deploy.demo.workload.raw_producer import Connection
from deploy.demo.workload.shipping import OFFSETS, java_hash
from deploy.demo.workload.verification import CONFIG
from tests.lab.asking import Ends, Open, delete_records, ends, open_on

UNGUARDED: Final = {CONFIG: "false"}

HOUR_MS: Final = 3_600_000


class Hang(NamedTuple):
    """The right answer: who wrote what is open where, and what its coordinator decided about it."""

    topic: str
    partition: int
    start_offset: int
    producer_id: int
    producer_epoch: int
    transactional_id: str | None
    decision: str

    @property
    def open(self) -> Open:
        return Open(self.producer_id, self.producer_epoch, self.start_offset)


def old_producer(connection: Connection, name: str, timeout_ms: int = 60_000) -> OldProducer:
    producer = OldProducer(connection, name)
    producer.init(timeout_ms)
    return producer


def orphan_producer(connection: Connection, as_id: str) -> OldProducer:
    """With a producer id that was never given to a transactional.id; `as_id` is what it pretends to be."""
    producer = OldProducer(connection, None, as_id)
    producer.init()
    return producer


def an_hour_ago() -> int:
    """A CreateTime with which Kafka's own find-hanging believes it at once."""
    return time.time_ns() // 1_000_000 - HOUR_MS


def commit_one(producer: OldProducer, topic: str, partition: int, values: list[bytes] | None = None) -> None:
    """An ordinary transaction, its marker written."""
    producer.add(topic, partition)
    producer.produce(topic, partition, values or [b"committed"])
    producer.end(commit=True)


def late_write(
    producer: OldProducer, topic: str, partition: int, *, commit: bool = False, timestamp_ms: int | None = None
) -> Hang:
    """KAFKA-14402: two records arrive after the end of their transaction, with its epoch. They belong to nothing,
    whatever the transaction's end was."""
    producer.add(topic, partition)
    producer.produce(topic, partition, [b"in time"])
    producer.end(commit=commit)
    start = producer.produce(topic, partition, [b"late", b"late too"], timestamp_ms=timestamp_ms)
    return _hang(producer, topic, partition, start)


def never_added(producer: OldProducer, topic: str, partition: int, *, timestamp_ms: int | None = None) -> Hang:
    """Records on a partition that the coordinator was never told of."""
    start = producer.produce(topic, partition, [b"never added"] * 3, timestamp_ms=timestamp_ms)
    return _hang(producer, topic, partition, start)


def offsets_never_added(producer: OldProducer, group: str, offsets: Mapping[tuple[str, int], int]) -> Hang:
    """TxnOffsetCommit without AddOffsetsToTxn: it hangs on the partition that keeps the group's offsets."""
    producer.commit_offsets(group, offsets)
    partition = offsets_partition(producer.connection, group)
    found = [one for one in open_on(producer.connection, OFFSETS, partition) if one.producer_id == producer.producer_id]
    assert len(found) == 1, found
    return _hang(producer, OFFSETS, partition, found[0].start_offset)


def outlives_its_records(producer: OldProducer, topic: str, partition: int) -> tuple[Hang, Ends]:
    """The log start passes the start of what hangs, and its leader remembers it. On 4.3.1 the LSO is then the base
    offset of the batch that holds the log start, below it; on 3.9.2 it is the log start."""
    hang = never_added(producer, topic, partition, timestamp_ms=an_hour_ago())
    for _ in range(2):
        producer.produce(topic, partition, [b"more"] * 3)
    delete_records(producer.connection, topic, partition, before=hang.start_offset + 5)
    now = ends(producer.connection, topic, partition)
    assert hang.open in open_on(producer.connection, topic, partition)
    assert now.log_start == hang.start_offset + 5
    assert now.last_stable_offset <= now.log_start < now.high_watermark
    return hang, now


def offsets_partition(connection: Connection, group: str) -> int:
    """Where the group's coordinator keeps its offsets."""
    return abs(java_hash(group)) % partition_count(connection.bootstrap, OFFSETS, threading.Event())


def _hang(producer: OldProducer, topic: str, partition: int, start: int, decision: str = "none") -> Hang:
    hang = Hang(
        topic, partition, start, producer.producer_id, producer.producer_epoch, producer.transactional_id, decision
    )
    assert hang.open in open_on(producer.connection, topic, partition)
    now = ends(producer.connection, topic, partition)
    assert now.last_stable_offset <= start < now.high_watermark
    return hang

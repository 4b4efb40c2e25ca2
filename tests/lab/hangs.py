"""Makes hanging transactions. Each function that makes one returns what txnscope should say about it (`Hang`).

These functions need a broker without KIP-890's guard (`UNGUARDED`). They check with the broker that the transaction is
open, and that the LSO is not above the first record of the transaction.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kafka.protocol.producer import AddOffsetsToTxnRequest, TxnOffsetCommitRequest

from deploy.demo.workload.clients import partition_count
from deploy.demo.workload.old_producer import OldProducer
from deploy.demo.workload.raw_producer import GROUPS, Connection, RawProducer, ask_coordinator, describe
from deploy.demo.workload.shipping import OFFSETS, java_hash
from deploy.demo.workload.verification import CONFIG
from tests.lab.asking import Ends, Open, delete_records, ends, open_on

UNGUARDED: Final = {CONFIG: "false"}

HOUR_MS: Final = 3_600_000


class Hang(NamedTuple):
    """A hanging transaction as txnscope has to report it: its entry, the owner of the entry, and the decision."""

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
    """Returns a producer whose producer id never had an owner. Its requests name the transactional.id `as_id`."""
    producer = OldProducer(connection, None, as_id)
    producer.init()
    return producer


def add_offsets(producer: OldProducer, group: str) -> None:
    """Adds to the transaction the partition of `__consumer_offsets` that keeps the group's offsets."""
    request = AddOffsetsToTxnRequest(
        transactional_id=producer.name,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        group_id=group,
        min_version=3,
        max_version=3,
    )
    ask_coordinator(producer.connection, request, producer.name)


def commit_offsets(producer: OldProducer, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commits `offsets` (keyed by topic and partition) without being a member of the group. Raises Refused if a broker
    refuses the request."""
    in_topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    at = in_topic.TxnOffsetCommitRequestPartition
    fixed = {"committed_leader_epoch": -1, "committed_metadata": ""}
    request = TxnOffsetCommitRequest(
        transactional_id=producer.name,
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        generation_id=-1,
        member_id="",
        group_instance_id=None,
        topics=[
            in_topic(name=topic, partitions=[at(partition_index=partition, committed_offset=offset, **fixed)])
            for (topic, partition), offset in offsets.items()
        ],
        min_version=3,
        max_version=3,
    )

    def first_error(answer: Any) -> int:
        return next((p.error_code for t in answer.topics for p in t.partitions if p.error_code), 0)

    ask_coordinator(producer.connection, request, group, GROUPS, first_error)


def an_hour_ago() -> int:
    """Returns a CreateTime that is old enough for Kafka's own find-hanging, which ignores younger transactions."""
    return time.time_ns() // 1_000_000 - HOUR_MS


def commit_one(producer: OldProducer, topic: str, partition: int, values: list[bytes] | None = None) -> None:
    """Commits an ordinary transaction. Its marker is written before this function returns."""
    producer.add(topic, partition)
    producer.produce(topic, partition, values or [b"committed"])
    producer.end(commit=True)


def late_write(
    producer: OldProducer, topic: str, partition: int, *, commit: bool = False, timestamp_ms: int | None = None
) -> Hang:
    """Writes two records after the end of a transaction, under the transaction's epoch (KAFKA-14402). The two records
    belong to no transaction, whatever the outcome of that transaction was."""
    producer.add(topic, partition)
    producer.produce(topic, partition, [b"in time"])
    producer.end(commit=commit)
    start = producer.produce(topic, partition, [b"late", b"late too"], timestamp_ms=timestamp_ms)
    return _hang(producer, topic, partition, start)


def never_added(producer: OldProducer, topic: str, partition: int, *, timestamp_ms: int | None = None) -> Hang:
    """Writes records to a partition that was never added to the transaction."""
    start = producer.produce(topic, partition, [b"never added"] * 3, timestamp_ms=timestamp_ms)
    return _hang(producer, topic, partition, start)


def committed_without_listing(connection: Connection, name: str, topic: str) -> Hang:
    """Makes a late write, and then writes to the same partition within a TV2 transaction that commits. The late write
    is an open entry of the same producer id and epoch, so the leader does not add the partition to the transaction.
    Needs Kafka 4 and a topic of two partitions."""
    old = old_producer(connection, name)
    hang = late_write(old, topic, 0)
    new = RawProducer(connection, name)
    new.producer_id, new.producer_epoch = old.producer_id, old.producer_epoch
    new.produce(topic, 1, [b"listed"])
    new._sequences[topic, 0] = old._sequences[topic, 0]
    new.produce(topic, 0, [b"not listed"])
    assert [list(topic.partitions) for topic in describe(connection, name).topics] == [[1]]
    new.end(commit=True)
    assert hang.open in open_on(connection, topic, 0)
    return hang._replace(decision="unknown")


def of_another_cluster(connection: Connection, name: str, topic: str, *, epoch: int) -> Hang:
    """Writes records as if the partition was copied from another cluster. Then this cluster assigns the producer id of
    these records to a transactional.id of its own. If `epoch` is above 0, that transactional.id never had this
    epoch."""
    before = old_producer(connection, f"{name}-before")
    copied = orphan_producer(connection, name)
    copied.producer_id, copied.producer_epoch = before.producer_id + 2, epoch
    hang = never_added(copied, topic, 0, timestamp_ms=an_hour_ago())
    here = old_producer(connection, name)
    assert here.producer_id == copied.producer_id, (
        "the cluster must assign producer ids in order, but assigned another one"
    )
    return hang._replace(transactional_id=None, decision="unknown")


def offsets_never_added(producer: OldProducer, group: str, offsets: Mapping[tuple[str, int], int]) -> Hang:
    """Sends TxnOffsetCommit without AddOffsetsToTxn. The transaction hangs on the partition with the group's
    offsets."""
    commit_offsets(producer, group, offsets)
    partition = offsets_partition(producer.connection, group)
    found = [one for one in open_on(producer.connection, OFFSETS, partition) if one.producer_id == producer.producer_id]
    assert len(found) == 1, found
    return _hang(producer, OFFSETS, partition, found[0].start_offset)


def outlives_its_records(producer: OldProducer, topic: str, partition: int) -> tuple[Hang, Ends]:
    """Deletes the first records of a hanging transaction, which the leader still reports as open. Returns the
    transaction, and the start and end offsets of the partition.

    On 3.9.2 the LSO is then the log start. On 4.3.1 the LSO is the base offset of the batch that contains the log
    start, and so lies below the log start.
    """
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
    return abs(java_hash(group)) % partition_count(connection.bootstrap, OFFSETS, threading.Event())


def _hang(producer: OldProducer, topic: str, partition: int, start: int, decision: str = "none") -> Hang:
    hang = Hang(
        topic, partition, start, producer.producer_id, producer.producer_epoch, producer.transactional_id, decision
    )
    assert hang.open in open_on(producer.connection, topic, partition)
    now = ends(producer.connection, topic, partition)
    assert now.last_stable_offset <= start < now.high_watermark
    return hang

"""Requests the state of a data partition from brokers, writes markers to it directly, and deletes its records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kafka.protocol.admin import DeleteRecordsRequest
from kafka.protocol.consumer import ListOffsetsRequest

from deploy.demo.workload.raw_producer import Connection
from service.kafka.client import KafkaClient
from service.kafka.cluster import topic_layout
from service.kafka.markers import write_marker
from service.kafka.producers import describe_producers

_COMMITTED, _UNCOMMITTED = 1, 0
_LATEST, _EARLIEST = -1, -2
_NOT_THERE = 3, None  # UNKNOWN_TOPIC_OR_PARTITION


class Open(NamedTuple):
    """An open transaction on a partition, as DescribeProducers returns it."""

    producer_id: int
    producer_epoch: int
    start_offset: int


class Ends(NamedTuple):
    log_start: int
    last_stable_offset: int
    high_watermark: int


def open_on(connection: Connection, topic: str, partition: int) -> list[Open]:
    """Returns the open transactions of the partition, by start offset."""
    found = [
        Open(p.producer_id, p.producer_epoch, p.transaction_start_offset)
        for p in _producers(connection, topic, partition)
        if p.transaction_start_offset >= 0
    ]
    return sorted(found, key=lambda one: one.start_offset)


def coordinator_epoch(connection: Connection, topic: str, partition: int, producer_id: int) -> int:
    """Returns the coordinator epoch of the producer id's last marker on the partition, or -1 if there is no marker.
    Raises KeyError if the leader does not know the producer id."""
    epochs = {p.producer_id: p.coordinator_epoch for p in _producers(connection, topic, partition)}
    return int(epochs[producer_id])


def ends(connection: Connection, topic: str, partition: int) -> Ends:
    return Ends(
        _offset(connection, topic, partition, _UNCOMMITTED, _EARLIEST),
        _offset(connection, topic, partition, _COMMITTED, _LATEST),
        _offset(connection, topic, partition, _UNCOMMITTED, _LATEST),
    )


def mark(connection: Connection, topic: str, partition: int, one: Open, *, commit: bool) -> None:
    """Writes the missing marker directly to the leader. Kafka's own tool can write an ABORT, but no tool of Kafka
    writes a COMMIT."""
    last = coordinator_epoch(connection, topic, partition, one.producer_id)

    def ask(client: KafkaClient, node: int) -> tuple[int, Any]:
        code = write_marker(
            client,
            node,
            topic=topic,
            partition=partition,
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            coordinator_epoch=max(last, 0),
            commit=commit,
        )
        return code, None

    _at_leader(connection, "WriteTxnMarkers", topic, partition, ask)


def delete_records(connection: Connection, topic: str, partition: int, before: int) -> None:
    """Deletes all records below the offset `before`. The log then starts there, as after retention."""
    wanted = DeleteRecordsRequest.DeleteRecordsTopic
    at = wanted.DeleteRecordsPartition(partition_index=partition, offset=before)
    request = DeleteRecordsRequest(topics=[wanted(name=topic, partitions=[at])], timeout_ms=10_000)

    def ask(client: KafkaClient, node: int) -> tuple[int, Any]:
        return client.ask(request, node).topics[0].partitions[0].error_code, None

    _at_leader(connection, "DeleteRecords", topic, partition, ask)


def _producers(connection: Connection, topic: str, partition: int) -> Any:
    def ask(client: KafkaClient, node: int) -> tuple[int, Any]:
        found = describe_producers(client, node, {topic: [partition]})[topic, partition]
        return found.error, found.producers

    return _at_leader(connection, "DescribeProducers", topic, partition, ask)


def _offset(connection: Connection, topic: str, partition: int, isolation: int, which: int) -> int:
    wanted = ListOffsetsRequest.ListOffsetsTopic
    at = wanted.ListOffsetsPartition(partition_index=partition, current_leader_epoch=-1, timestamp=which)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=[wanted(name=topic, partitions=[at])], max_version=5
    )

    def ask(client: KafkaClient, node: int) -> tuple[int, Any]:
        answer = client.ask(request, node).topics[0].partitions[0]
        return answer.error_code, answer.offset

    return int(_at_leader(connection, "ListOffsets", topic, partition, ask))


def _at_leader(
    connection: Connection, what: str, topic: str, partition: int, ask: Callable[[KafkaClient, int], tuple[int, Any]]
) -> Any:
    """Returns the answer of the leader of the partition. Repeats the request while the partition has no leader, and
    after transient errors. Raises Refused after any other error, or if it gives up after a time limit."""

    def attempt(client: KafkaClient) -> tuple[int, Any]:
        layout = topic_layout(client, topic)
        if layout is None or layout.leaders[partition].node < 0:
            return _NOT_THERE
        return ask(client, layout.leaders[partition].node)

    return connection.retry(f"{what} {topic}-{partition}", attempt)

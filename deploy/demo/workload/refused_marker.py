"""Makes a transaction that is decided and never completed, on one broker, without harm to other transactions.

First, a marker with a coordinator epoch above the present one is written to the partition. Then the partition's leader
refuses the coordinator's own marker (TRANSACTION_COORDINATOR_FENCED), and the coordinator gives up. KAFKA-9144, in
which coordinator epochs went backwards, had the same effect.
"""

from __future__ import annotations

from typing import Any, Final

from deploy.demo.workload.old_producer import OldProducer
from deploy.demo.workload.raw_producer import wait_for_state
from deploy.demo.workload.verification import GUARDED
from service.kafka.client import KafkaClient
from service.kafka.cluster import topic_layout
from service.kafka.errors import UNKNOWN_TOPIC_OR_PARTITION
from service.kafka.markers import write_marker

LATER_EPOCH: Final = 1_000_000
"""A coordinator epoch that no real coordinator reaches, because coordinator epochs count elections."""


def leave_prepared(producer: OldProducer, topic: str, partition: int) -> int:
    """Leaves the id in PrepareCommit for good. Returns the first offset of the transaction, where the LSO stops."""
    producer.add(topic, partition)
    producer.produce(topic, partition, [b"before"], retry_on=GUARDED)
    producer.end(commit=True)
    _write_later_marker(producer, topic, partition)
    producer.add(topic, partition)
    start = producer.produce(topic, partition, [b"decided"], retry_on=GUARDED)
    producer.end(commit=True, wait=False)
    wait_for_state(producer.connection, producer.name, "PrepareCommit")
    return start


def _write_later_marker(producer: OldProducer, topic: str, partition: int) -> None:
    """Writes a marker with the coordinator epoch LATER_EPOCH. Called between two transactions, so that the marker ends
    none."""

    def attempt(client: KafkaClient) -> tuple[int, Any]:
        layout = topic_layout(client, topic)
        if layout is None:
            return UNKNOWN_TOPIC_OR_PARTITION, None
        code = write_marker(
            client,
            layout.leaders[partition].node,
            topic=topic,
            partition=partition,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            coordinator_epoch=LATER_EPOCH,
            commit=False,
        )
        return code, None

    producer.connection.retry(f"WriteTxnMarkers {topic}-{partition}", attempt)

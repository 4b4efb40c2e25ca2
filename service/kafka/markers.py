"""Ends a transaction on one partition by hand: writes the marker that the coordinator will never write (KIP-664)."""

from __future__ import annotations

from typing import Final

from kafka.protocol.producer import WriteTxnMarkersRequest

from service.kafka.client import KafkaClient

NEEDS: Final = "CLUSTER_ACTION on the cluster (from Kafka 3.8 on, ALTER is enough)"
"""Permission to write a marker. Before Kafka 3.8, only CLUSTER_ACTION allows this (KAFKA-16513)."""

_LEGACY = 1  # has no transaction version: Kafka assumes 0, and then accepts a marker with the producer's own epoch


def write_marker(
    client: KafkaClient,
    node: int,
    *,
    topic: str,
    partition: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    commit: bool,
) -> int:
    """Writes COMMIT or ABORT for the producer id into the partition that `node` leads. Returns 0 if the marker is in
    the log. Otherwise returns the error code: 47 INVALID_PRODUCER_EPOCH (`producer_epoch` is lower than the last one
    seen), 52 TRANSACTION_COORDINATOR_FENCED (`coordinator_epoch` is lower than the last marker's), 31
    CLUSTER_AUTHORIZATION_FAILED (see NEEDS), 3 UNKNOWN_TOPIC_OR_PARTITION, 6 NOT_LEADER_OR_FOLLOWER, or another one.

    The coordinator never learns of the marker. If the coordinator still knows the transaction, the marker ends it on
    this partition alone. `coordinator_epoch`: as DescribeProducers reports it, with 0 instead of -1 (no marker yet), as
    in Kafka's own tool. Raises KafkaUnavailable (the marker may be written all the same) or KafkaRefused.
    """
    marker = WriteTxnMarkersRequest.WritableTxnMarker
    request = WriteTxnMarkersRequest(
        max_version=_LEGACY,
        markers=[
            marker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                transaction_result=commit,
                coordinator_epoch=coordinator_epoch,
                topics=[marker.WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
            )
        ],
    )
    return int(client.ask(request, node).markers[0].topics[0].partitions[0].error_code)

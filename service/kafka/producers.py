"""Reads the producer states of partitions, with the open transactions, from a broker that has a replica (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from kafka.protocol.admin import DescribeProducersRequest

from service.kafka.client import REQUEST_TIMEOUT_MS, KafkaClient

AT_ONCE: Final = 500
"""Partitions per request, as in Kafka's own tool (`TransactionsCommand`): an answer has every producer of each."""


class ActiveProducer(NamedTuple):
    """One producer id in a partition's producer state, which also holds plain idempotent producers. -1 is Kafka's
    "none": no batch of this epoch kept (`last_sequence`), no marker ever written here (`coordinator_epoch`), no
    transaction open (`transaction_start_offset`). `last_timestamp_ms`: timestamp of its newest batch, by the producer's
    clock.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int


class Producers(NamedTuple):
    """The producers of one partition. With an error, `producers` is empty and proves nothing."""

    error: int
    producers: tuple[ActiveProducer, ...]


def describe_producers(
    client: KafkaClient, node: int, partitions: Mapping[str, Sequence[int]], timeout_ms: int = REQUEST_TIMEOUT_MS
) -> dict[tuple[str, int], Producers]:
    """Returns the producers of each partition, as `node` reports them: the leader, or any broker that has a replica.
    Needs READ on the topic (else error 29). `timeout_ms` is for each request. Raises KafkaUnavailable or KafkaRefused.
    """
    found: dict[tuple[str, int], Producers] = {}
    places = ((topic, p) for topic, of_topic in partitions.items() for p in of_topic)
    while some := tuple(islice(places, AT_ONCE)):
        answer = client.ask(DescribeProducersRequest(topics=list(_asked(some))), node, timeout_ms)
        for topic in answer.topics:
            for one in topic.partitions:
                producers = tuple(
                    ActiveProducer(
                        p.producer_id,
                        p.producer_epoch,
                        p.last_sequence,
                        p.last_timestamp,
                        p.coordinator_epoch,
                        p.current_txn_start_offset,
                    )
                    for p in (() if one.error_code else one.active_producers)
                )
                found[topic.name, one.partition_index] = Producers(one.error_code, producers)
    return found


def _asked(places: Sequence[tuple[str, int]]) -> Iterator[DescribeProducersRequest.TopicRequest]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in places:
        by_topic.setdefault(topic, []).append(partition)
    for topic, of_topic in by_topic.items():
        yield DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=of_topic)

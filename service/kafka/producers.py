"""Reads the producer states of partitions, and the present owners of producer ids (KIP-664)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from kafka.protocol.admin import DescribeProducersRequest

from service.domain.partitions.open_entries import DescribedOwner
from service.domain.transaction_log.states import CODES
from service.kafka.client import REQUEST_TIMEOUT_MS, KafkaClient
from service.kafka.cluster import broker_ids, by_topic
from service.kafka.transactions import describe_transactions, list_transactions

AT_ONCE: Final = 500
"""Maximum number of partitions in a request, because an answer lists all producers of each partition. Kafka's own tool
(`TransactionsCommand`) has the same limit."""

TIMEOUT_MS: Final = 2_000


class ActiveProducer(NamedTuple):
    """One producer id in a partition's producer state, which also holds plain idempotent producers. `last_sequence`: -1
    if no batch of this epoch is kept. `last_timestamp_ms`: timestamp of the newest batch, by the producer's clock; a
    marker has a timestamp by the clock of the partition's leader. `coordinator_epoch`: -1 if the leader knows no
    marker. `transaction_start_offset`: -1 if no transaction is open."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int


class Producers(NamedTuple):
    """The producers of one partition. If `error` is not 0, `producers` is empty and proves nothing."""

    error: int
    producers: tuple[ActiveProducer, ...]


def describe_producers(
    client: KafkaClient, node: int, partitions: Mapping[str, Sequence[int]], timeout_ms: int = REQUEST_TIMEOUT_MS
) -> dict[tuple[str, int], Producers]:
    """Returns the producers of each partition, as `node` reports them. `node`: the leader, or any other broker that has
    a replica. Needs READ on the topic (else error 29). `timeout_ms` limits each request. Raises KafkaUnavailable or
    KafkaRefused."""
    found: dict[tuple[str, int], Producers] = {}
    places = ((topic, p) for topic, of_this in partitions.items() for p in of_this)
    while some := tuple(islice(places, AT_ONCE)):
        of_topic = DescribeProducersRequest.TopicRequest
        topics = [of_topic(name=topic, partition_indexes=of) for topic, of in by_topic(some).items()]
        answer = client.ask(DescribeProducersRequest(topics=topics), node, timeout_ms)
        for topic in answer.topics:
            for partition in topic.partitions:
                producers = tuple(
                    ActiveProducer(
                        p.producer_id,
                        p.producer_epoch,
                        p.last_sequence,
                        p.last_timestamp,
                        p.coordinator_epoch,
                        p.current_txn_start_offset,
                    )
                    for p in (() if partition.error_code else partition.active_producers)
                )
                found[topic.name, partition.partition_index] = Producers(partition.error_code, producers)
    return found


def describe_owners(client: KafkaClient, producer_ids: Sequence[int]) -> dict[int, DescribedOwner]:
    """Returns the owner of each producer id that has one. A missing owner proves nothing, because Kafka hides a
    transactional.id without DESCRIBE on it.

    Every broker has to answer: a broker that does not know yet that it has lost the lead of a log partition still lists
    the ids of that partition. If two brokers list a producer id, its owner is left out. Raises KafkaUnavailable (also
    while any broker loads a part of the transaction log) or KafkaRefused (before Kafka 3.0).
    """
    listed: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for node in broker_ids(client, TIMEOUT_MS):
        for listed_id in list_transactions(client, node, producer_ids, TIMEOUT_MS):
            listed[listed_id.producer_id].append((node, listed_id.transactional_id))
    by_node: dict[int, list[str]] = defaultdict(list)
    for found in listed.values():
        if len(found) == 1:
            node, name = found[0]
            by_node[node].append(name)
    owners: dict[int, DescribedOwner] = {}
    for node, names in by_node.items():
        for name, description in describe_transactions(client, node, names, TIMEOUT_MS).items():
            state, producer_id, epoch, places = description
            # the transactional.id may have another producer id by now
            if state is not None and state in CODES and listed.get(producer_id) == [(node, name)]:
                owners[producer_id] = DescribedOwner(name.encode(), node, CODES[state], producer_id, epoch, places)
    return owners

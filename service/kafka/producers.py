"""Reads the producer states of partitions, and the present owners of producer ids (KIP-664)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from kafka.protocol.admin import DescribeProducersRequest
from kafka.protocol.metadata import MetadataRequest

from service.domain.partitions.open_entries import DescribedOwner
from service.domain.transaction_log.states import CODES
from service.kafka.client import REQUEST_TIMEOUT_MS, KafkaClient
from service.kafka.transactions import TransactionDescription, describe_transactions, list_transactions

AT_ONCE: Final = 500
"""Partitions per request, as in Kafka's own tool (`TransactionsCommand`): an answer lists all producers of each."""

TIMEOUT_MS: Final = 2_000


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
        answer = client.ask(DescribeProducersRequest(topics=list(_topic_requests(some))), node, timeout_ms)
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


def _topic_requests(places: Sequence[tuple[str, int]]) -> Iterator[DescribeProducersRequest.TopicRequest]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in places:
        by_topic.setdefault(topic, []).append(partition)
    for topic, of_topic in by_topic.items():
        yield DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=of_topic)


def describe_owners(client: KafkaClient, producer_ids: Sequence[int]) -> dict[int, DescribedOwner]:
    """Returns the owner of each producer id. A missing owner proves nothing: Kafka hides ids without permission
    (DESCRIBE on the id).

    Every broker has to answer, because a broker that lost the lead and does not know it yet answers convincingly. The
    owner is left out if two brokers list the producer id. Raises KafkaUnavailable (also while any broker loads a part
    of the transaction log) or KafkaRefused (before Kafka 3.0).
    """
    brokers = client.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False), timeout_ms=TIMEOUT_MS).brokers
    listed: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for node in sorted(broker.node_id for broker in brokers):
        for one in list_transactions(client, node, producer_ids, TIMEOUT_MS):
            listed[one.producer_id].append((node, one.transactional_id))
    by_node: dict[int, list[str]] = defaultdict(list)
    for found in listed.values():
        if len(found) == 1:
            node, name = found[0]
            by_node[node].append(name)
    owners: dict[int, DescribedOwner] = {}
    for node, names in by_node.items():
        for name, description in describe_transactions(client, node, names, TIMEOUT_MS).items():
            # the transactional.id may have another producer id by now
            if description.state in CODES and listed.get(description.producer_id) == [(node, name)]:
                owners[description.producer_id] = _described_owner(name, node, description)
    return owners


def _described_owner(name: str, node: int, description: TransactionDescription) -> DescribedOwner:
    assert description.state is not None
    state = CODES[description.state]
    return DescribedOwner(
        name.encode(), node, state, description.producer_id, description.producer_epoch, description.partitions
    )

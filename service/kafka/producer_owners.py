"""Finds the present owners of producer ids from coordinators (KIP-664): the fallback without transaction log access."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from kafka.protocol.metadata import MetadataRequest

from service.domain.partitions.open_entries import Told
from service.domain.transaction_log.states import CODES
from service.kafka.client import KafkaClient
from service.kafka.transactions import Described, describe_transactions, list_transactions

TIMEOUT_MS: Final = 2_000


def told_of(client: KafkaClient, producer_ids: Sequence[int]) -> dict[int, Told]:
    """Returns the owner of each producer id. A missing one proves nothing: Kafka hides ids without permission (DESCRIBE
    on the id).

    Every broker has to answer, and only one may list a producer id, because a broker that lost the lead and does not
    know it answers convincingly. Raises KafkaUnavailable (also while any broker loads a part of the transaction log) or
    KafkaRefused (before Kafka 3.0).
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
    told: dict[int, Told] = {}
    for node, names in by_node.items():
        for name, said in describe_transactions(client, node, names, TIMEOUT_MS).items():
            # the transactional.id may have another producer id by now
            if said.state in CODES and listed.get(said.producer_id) == [(node, name)]:
                told[said.producer_id] = _told(name, node, said)
    return told


def _told(name: str, node: int, said: Described) -> Told:
    assert said.state is not None
    state = CODES[said.state]
    return Told(name.encode(), node, state, said.producer_id, said.producer_epoch, said.partitions)

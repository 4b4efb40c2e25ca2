"""Real brokers for tests: free ports, answers of Kafka's own admin interfaces."""

from __future__ import annotations

import random
from typing import NamedTuple

from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from deploy.demo.broker import Broker, is_free
from service.kafka.client import KafkaClient
from service.kafka.settings import ClientSettings

VERSIONS = ("4.3.1", "3.9.2")


class Described(NamedTuple):
    """DescribeTransactions' answer for one id."""

    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    partitions: frozenset[tuple[str, int]]


def free_port() -> int:
    """The first of two neighbouring free ports (a broker's and its controller's).

    Below the range that the kernel hands out to outgoing connections, so that nothing slips in between two starts.
    """
    while True:
        port = random.randrange(20_000, 32_000, 2)
        if is_free(port) and is_free(port + 1):
            return port


def connect(bootstrap: str) -> KafkaClient:
    return KafkaClient(ClientSettings.load(bootstrap, None), client_id="txnscope-tests")


def transactional_ids(bootstrap: str) -> dict[str, str]:
    """ListTransactions of every broker: state by id."""
    with connect(bootstrap) as client:
        brokers = client.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False)).brokers
        answers = [
            client.ask(ListTransactionsRequest(state_filters=[], producer_id_filters=[], max_version=0), broker.node_id)
            for broker in brokers
        ]
    return {t.transactional_id: t.transaction_state for answer in answers for t in answer.transaction_states}


def describe_transaction(bootstrap: str, transactional_id: str) -> Described:
    with connect(bootstrap) as client:
        node = client.ask(FindCoordinatorRequest(key=transactional_id, key_type=1, max_version=3)).node_id
        answer = client.ask(DescribeTransactionsRequest(transactional_ids=[transactional_id]), node)
    found = answer.transaction_states[0]
    assert found.error_code == 0, f"DescribeTransactions {transactional_id}: error {found.error_code}"
    return Described(
        found.transaction_state,
        found.producer_id,
        found.producer_epoch,
        found.transaction_timeout_ms,
        frozenset((t.topic, p) for t in found.topics for p in t.partitions),
    )


def kafka_transactions(broker: Broker, *arguments: str) -> list[dict[str, str]]:
    """What `kafka-transactions.sh` prints for `arguments` (`"list"`, or `"describe", "--transactional-id", ID`)."""
    printed = broker.tool(
        "org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", broker.bootstrap, *arguments
    )
    head, *rows = [[cell.strip() for cell in line.split("\t")] for line in printed.splitlines() if "\t" in line]
    return [dict(zip(head, row, strict=False)) for row in rows]

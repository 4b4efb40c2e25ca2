"""Runs real brokers for tests, alone or as a cluster of three. Finds free ports, and returns answers of Kafka's own
admin interfaces."""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

import pytest
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    DescribeTransactionsRequest,
    ElectLeadersRequest,
    ListTransactionsRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from deploy.demo.broker import Broker, is_free
from service.kafka.client import KafkaClient
from service.kafka.settings import ClientSettings
from tests.helpers import turns
from tests.helpers.waiting import wait_until, wait_until_equal

EVERY_VERSION: Final = (
    "3.3.2",
    "3.4.1",
    "3.5.2",
    "3.6.2",
    "3.7.2",
    "3.8.1",
    "3.9.2",
    "4.0.2",
    "4.1.2",
    "4.2.1",
    "4.3.1",
    "4.4.0",
)
"""The last patch release of each minor release from 3.3 on."""
_CHOSEN: Final = os.environ.get("TXNSCOPE_TEST_VERSIONS", "")
FULL_MATRIX: Final = bool(_CHOSEN)
VERSIONS: Final = tuple(_CHOSEN.split(",")) if FULL_MATRIX else ("4.3.1", "3.9.2")
"""The versions that tests run on. If TXNSCOPE_TEST_VERSIONS (comma-separated) is set, each scenario runs on all
versions in TXNSCOPE_TEST_VERSIONS. Otherwise a scenario runs on one of two versions: on the one that the scenario
names, or, if TXNSCOPE_TEST_TURN is odd, on the other one."""
WITH_TV2: Final = tuple(version for version in EVERY_VERSION if not version.startswith("3."))
"""Versions whose new clusters have transaction.version 2 (KIP-890)."""
SKIPS_THE_LOST: Final = ("4.3.1", "4.4.0")
"""Versions with KAFKA-20734: the coordinator treats a partition without a leader as deleted, and completes the
transaction without a marker there."""

_PORTS = range(20_000, 32_000)
_PORTS_EACH = len(_PORTS) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) // 2 * 2
_NODES = (1, 2, 3)
_PREFERRED = 0
_NOT_YET: Final = (14, 15, 16)  # as after a start: the coordinator is loading its log, is unknown, or is another broker
_REPLICATED = {
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    # the controller notices a dead broker after 3 s instead of 9 s
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


class Described(NamedTuple):
    """The answer of DescribeTransactions for one id."""

    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    partitions: frozenset[tuple[str, int]]


def on(version: str) -> pytest.MarkDecorator:
    """Returns a mark that runs a test on `version`. If TXNSCOPE_TEST_TURN is odd and `version` is one of the two
    VERSIONS, the test runs on the other one. If TXNSCOPE_TEST_VERSIONS is set, the test runs on all VERSIONS."""
    return pytest.mark.parametrize("version", VERSIONS if FULL_MATRIX else (_in_turn(version),))


def on_those(versions: Collection[str], version: str) -> pytest.MarkDecorator:
    """Returns a mark like `on`, for a test of behavior that exists only in `versions`. The test runs on no other
    version."""
    if FULL_MATRIX:
        return pytest.mark.parametrize("version", [v for v in VERSIONS if v in versions])
    turned = _in_turn(version)
    return pytest.mark.parametrize("version", [turned if turned in versions else version])


def on_broker(version: str) -> pytest.MarkDecorator:
    """Returns a mark like `on`, for a test that uses the shared fixture `broker`."""
    return pytest.mark.parametrize("broker", VERSIONS if FULL_MATRIX else (_in_turn(version),), indirect=True)


def _in_turn(version: str) -> str:
    return VERSIONS[1 - VERSIONS.index(version)] if turns.IS_ODD and version in VERSIONS else version


def free_port() -> int:
    """Returns the first of two neighboring free ports, for a broker and its controller.

    No other process takes the ports before the broker starts: the kernel uses only higher ports for outgoing
    connections, and each test process has its own part of the range.
    """
    first = _PORTS.start + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) * _PORTS_EACH
    while True:
        port = random.randrange(first, first + _PORTS_EACH, 2)
        if is_free(port) and is_free(port + 1):
            return port


def free_ports(count: int) -> list[int]:
    """Returns `count` different ports, each chosen as by `free_port`."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return list(ports)


def new_cluster_id() -> str:
    """Returns a new id for a Kafka cluster. Each test cluster needs an id of its own, because a store binds one name to
    each id."""
    while (found := secrets.token_urlsafe(16)).startswith("-"):  # to Kafka's tool, - begins a flag
        pass
    return found


def second_listener(
    port: int, at: int, advertised: int, name: str = "SECOND", protocol: str = "PLAINTEXT"
) -> dict[str, str]:
    """Returns the settings of a broker that listens at the ports `port` and `at`. To clients of the listener at `at`,
    the broker advertises the port `advertised`."""
    listeners = {"PLAINTEXT": port, name: at, "CONTROLLER": port + 1}
    return {
        "listeners": ",".join(f"{one}://127.0.0.1:{at}" for one, at in listeners.items()),
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},{name}://127.0.0.1:{advertised}",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{name}:{protocol}",
    }


class Cluster:
    """Three brokers, each also a controller: `with Cluster("4.3.1", directory) as cluster`. The cluster works while one
    broker is down.

    By default, each partition of the transaction log has a replica on every broker. `properties` adds settings, or
    overrides the default ones.
    """

    def __init__(self, version: str, directory: Path, properties: Mapping[str, str] | None = None) -> None:
        ports = dict(zip(_NODES, free_ports(len(_NODES)), strict=True))
        voters = ",".join(f"{node}@127.0.0.1:{port + 1}" for node, port in ports.items())
        shared = _REPLICATED | {"controller.quorum.voters": voters} | dict(properties or {})
        self.nodes = {
            node: Broker(version, port, directory / f"node-{node}", shared | {"node.id": str(node)}, heap_mb=256)
            for node, port in ports.items()
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    def start(self) -> Cluster:
        """Starts all brokers at the same time, because a single broker has no quorum. Returns when each broker knows
        all three."""
        try:
            with ThreadPoolExecutor(len(self.nodes)) as starting:
                list(starting.map(Broker.start, self.nodes.values()))
            self._wait_until_whole()
        except BaseException:
            self.kill()
            raise
        return self

    def kill(self) -> None:
        """Ends all brokers by SIGKILL, because a controlled shutdown without a quorum takes long."""
        for node in self.nodes.values():
            node.kill()

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    def _wait_until_whole(self) -> None:
        for node in self.nodes.values():
            with connect(node.bootstrap) as client:
                wait_until_equal(partial(_known_to, client), set(_NODES), f"the brokers that {node.bootstrap} knows")


def _known_to(client: KafkaClient) -> set[int]:
    return {
        broker.node_id for broker in client.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False)).brokers
    }


def connect(bootstrap: str) -> KafkaClient:
    return KafkaClient(ClientSettings.load(bootstrap, None), client_id="txnscope-tests")


def elect(client: KafkaClient, order: Mapping[str, Mapping[int, Sequence[int]]]) -> None:
    """Assigns the replicas in `order`, a mapping from topic to a mapping from partition to replicas. Then elects the
    first replica of each partition as its leader, as an operator does to move load."""
    by_replica = AlterPartitionReassignmentsRequest.ReassignableTopic
    by_topic = ElectLeadersRequest.TopicPartitions
    reassigned = [
        by_replica(
            name=name,
            partitions=[
                by_replica.ReassignablePartition(partition_index=p, replicas=[*replicas])
                for p, replicas in some.items()
            ],
        )
        for name, some in order.items()
    ]
    elected = [by_topic(topic=name, partitions=list(some)) for name, some in order.items()]
    client.ask(AlterPartitionReassignmentsRequest(timeout_ms=20_000, topics=reassigned))
    client.ask(ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=elected, timeout_ms=20_000))


def transactional_ids(bootstrap: str) -> dict[str, str]:
    """Returns the state of every transactional.id, from the answers of all brokers to ListTransactions."""
    with connect(bootstrap) as client:
        brokers = client.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False)).brokers
        answers = [
            client.ask(ListTransactionsRequest(state_filters=[], producer_id_filters=[], max_version=0), broker.node_id)
            for broker in brokers
        ]
    return {t.transactional_id: t.transaction_state for answer in answers for t in answer.transaction_states}


def describe_transaction(bootstrap: str, transactional_id: str) -> Described:
    with connect(bootstrap) as client:

        def answer() -> Any:
            node = client.ask(FindCoordinatorRequest(key=transactional_id, key_type=1, max_version=3)).node_id
            answered = client.ask(DescribeTransactionsRequest(transactional_ids=[transactional_id]), node)
            (state,) = answered.transaction_states
            return state

        found = wait_until(answer, lambda one: one.error_code not in _NOT_YET, f"the coordinator of {transactional_id}")
    assert found.error_code == 0, f"DescribeTransactions {transactional_id}: error {found.error_code}"
    return Described(
        found.transaction_state,
        found.producer_id,
        found.producer_epoch,
        found.transaction_timeout_ms,
        frozenset((t.topic, p) for t in found.topics for p in t.partitions),
    )


def kafka_transactions(broker: Broker, *arguments: str) -> list[dict[str, str]]:
    """Returns the rows that `kafka-transactions.sh` prints, each a mapping from column to value. `arguments`: the
    command of the tool and its flags, such as `"list"`, or `"describe", "--transactional-id", ID`."""
    printed = broker.tool(
        "org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", broker.bootstrap, *arguments
    )
    head, *rows = [[cell.strip() for cell in line.split("\t")] for line in printed.splitlines() if "\t" in line]
    return [dict(zip(head, row, strict=False)) for row in rows]

"""Runs transactions of correct clients on a partition that loses its leader. The leader is frozen or stopped while the
transactions are decided.

The cluster has three brokers. The transaction log is on one broker only. The victim, the broker that leads the
partition, is another one. If the victim had a replica of the log, PrepareX could not be written while the victim is
frozen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple

from confluent_kafka.admin import NewTopic
from kafka.protocol.admin import DescribeQuorumRequest

from deploy.demo.broker import Broker
from deploy.demo.workload.old_producer import OldProducer
from deploy.demo.workload.raw_producer import Connection, coordinator, describe
from service.kafka.client import KafkaClient
from tests.helpers.brokers import SKIPS_THE_LOST, Cluster, connect
from tests.helpers.waiting import ANSWER_S, OPEN_MS, wait_for, wait_until_equal
from tests.integration.producers import admin_of, create_topics
from tests.lab.asking import ends, open_on
from tests.lab.hangs import Hang

PROPERTIES: Final = {
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "min.insync.replicas": "1",
    # for this time, a frozen broker stays the leader of its partitions
    "broker.session.timeout.ms": "60000",
}
LOST, LIVING = 0, 1
"""The topic's partitions. The victim leads LOST, and the coordinator leads LIVING."""


class Torn(NamedTuple):
    """A transaction on the partitions LIVING and LOST. While the leader of LOST is frozen or stopped, only LIVING gets
    a marker. `start_offset` is the offset of the transaction's first record on LOST."""

    topic: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    start_offset: int
    victim: int
    """Node id of the broker that leads LOST, and is frozen or stopped."""
    coordinator: int

    def hang(self, decision: str = "commit") -> Hang:
        """Returns what txnscope should say on a version in SKIPS_THE_LOST, where the transaction hangs on LOST."""
        return Hang(
            self.topic,
            LOST,
            self.start_offset,
            self.producer_id,
            self.producer_epoch,
            self.transactional_id,
            decision=decision,
        )


Story = Callable[[OldProducer, Torn], None]
"""A function that does what a client does while LOST has no leader."""


def commits(producer: OldProducer, _: Torn) -> None:
    producer.end(commit=True, wait=False)


def aborts(producer: OldProducer, _: Torn) -> None:
    producer.end(commit=False, wait=False)


def commits_and_aborts_the_next(producer: OldProducer, torn: Torn) -> None:
    """Commits the transaction, and aborts the next one. Both transactions list LOST. The next transaction cannot write
    to LOST, and its marker there is skipped, too."""
    commits(producer, torn)
    _wait_until_complete(producer, torn, "CompleteCommit")
    producer.add(torn.topic, LOST, LIVING)
    aborts(producer, torn)


def commits_and_goes_on_elsewhere(producer: OldProducer, torn: Torn) -> None:
    commits(producer, torn)
    _wait_until_complete(producer, torn, "CompleteCommit")
    producer.add(torn.topic, LIVING)
    commits(producer, torn)


@contextmanager
def frozen_leader(cluster: Cluster, name: str) -> Iterator[Torn]:
    """Commits a transaction while the leader of LOST is frozen. During the block, the marker for LOST is not
    acknowledged. After the block, the transaction completes."""
    torn = begin(cluster, name)
    victim = cluster.nodes[torn.victim]
    victim.pause()
    try:
        with _to(cluster.nodes[torn.coordinator]) as connection:
            commits(_continued(connection, torn), torn)
            wait_until_equal(lambda: open_on(connection, torn.topic, LIVING), [], "the open transactions on LIVING")
            wait_until_equal(
                lambda: _missing(connection, torn),
                {(torn.topic, LOST)},
                "the missing markers that the coordinator reports",
            )
        yield torn
    finally:
        victim.resume()


@contextmanager
def stopped_leader(cluster: Cluster, name: str) -> Iterator[Torn]:
    """Commits a transaction while LOST has no leader. LOST gets its leader back at the end of the block. Then the
    transaction hangs if the version is in SKIPS_THE_LOST. Otherwise the transaction completes."""
    torn = begin(cluster, name)
    with outage(cluster, {torn: commits}):
        yield torn


@contextmanager
def outage(cluster: Cluster, stories: Mapping[Torn, Story]) -> Iterator[None]:
    """Runs the block while LOST has no leader. `stories` maps each transaction, which has already begun, to what its
    client does during the outage. Before the block, runs these functions, and waits until each transaction has ended as
    far as possible."""
    ((victim, leading),) = {(cluster.nodes[torn.victim], cluster.nodes[torn.coordinator]) for torn in stories}
    victim.stop()
    try:
        for torn in stories:
            wait_for(partial(has_lost, leading.bootstrap, torn.topic), "LOST to lose its leader")
        with _to(leading) as connection:
            for torn, story in stories.items():
                story(_continued(connection, torn), torn)
                _wait_until_ended(connection, leading, torn)
        yield
    finally:
        victim.start()
        for torn in stories:
            wait_until_equal(partial(has_lost, leading.bootstrap, torn.topic), False, "whether LOST has no leader")


def goes_on(connection: Connection, torn: Torn) -> OldProducer:
    """Begins the producer's next transaction, and writes to LOST after the open entry there. Returns the producer."""
    producer = _continued(connection, torn)
    producer.add(torn.topic, LOST)
    producer._sequences[torn.topic, LOST] = 2  # this record follows the two records of `begin`
    producer.produce(torn.topic, LOST, [b"of the next"])
    return producer


def still_hangs(cluster: Cluster, torn: Torn) -> bool:
    """Returns whether the restarted victim reports the transaction as open on LOST, with the LSO at the start of the
    transaction."""
    with _to(cluster.nodes[torn.victim]) as connection:
        now = ends(connection, torn.topic, LOST)
        return torn.hang().open in open_on(connection, torn.topic, LOST) and now.last_stable_offset == torn.start_offset


def begin(cluster: Cluster, name: str) -> Torn:
    """Begins a transaction, and writes to both partitions of a new topic."""
    with _to(next(iter(cluster.nodes.values()))) as connection:
        producer = OldProducer(connection, name)
        producer.init(OPEN_MS)
        with connect(connection.bootstrap) as client:
            code, leading = coordinator(client, name)
            controller = _controller(client)
        assert code == 0
        victim = max(cluster.nodes.keys() - {leading, controller})
        create_topics(connection.bootstrap, NewTopic(name, 2, replica_assignment=[[victim], [leading]]))
        producer.add(name, LOST, LIVING)
        start = producer.produce(name, LOST, [b"half", b"of it"])
        producer.produce(name, LIVING, [b"the rest"])
    return Torn(name, name, producer.producer_id, producer.producer_epoch, start, victim, leading)


def _controller(client: KafkaClient) -> int:
    """Returns the node of the active controller. The victim must be another node, because the loss of the controller
    stops more than one leader."""
    partition = DescribeQuorumRequest.TopicData.PartitionData(partition_index=0)
    topic = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    answer = client.ask(DescribeQuorumRequest(topics=[topic]))
    return int(answer.topics[0].partitions[0].leader_id)


def _continued(connection: Connection, torn: Torn) -> OldProducer:
    """Returns a producer that continues the transaction over `connection`. During an outage, `connection` is a new one,
    which has never used the victim."""
    producer = OldProducer(connection, torn.transactional_id)
    producer.producer_id, producer.producer_epoch = torn.producer_id, torn.producer_epoch
    return producer


def _wait_until_ended(connection: Connection, leading: Broker, torn: Torn) -> None:
    """Waits until the transaction has ended as far as possible: until it is complete, or only the marker on LOST is
    missing."""
    wait_until_equal(lambda: open_on(connection, torn.topic, LIVING), [], "the open transactions on LIVING")
    if leading.version in SKIPS_THE_LOST:
        wait_for(lambda: _state(connection, torn).startswith("Complete"), "the transaction to complete without LOST")
    else:
        what = "the missing markers that the coordinator reports"
        wait_until_equal(lambda: _missing(connection, torn), {(torn.topic, LOST)}, what)


def _wait_until_complete(producer: OldProducer, torn: Torn, state: str) -> None:
    wait_until_equal(lambda: _state(producer.connection, torn), state, "the state of the transaction without LOST")


def _missing(connection: Connection, torn: Torn) -> set[tuple[str, int]]:
    reported = describe(connection, torn.transactional_id)
    assert reported.transaction_state == "PrepareCommit"
    return {(topic.topic, partition) for topic in reported.topics for partition in topic.partitions}


def _state(connection: Connection, torn: Torn) -> str:
    return str(describe(connection, torn.transactional_id).transaction_state)


def has_lost(bootstrap: str, topic: str) -> bool:
    """Returns whether the partition LOST of the topic has no leader."""
    topics = admin_of(bootstrap).list_topics(topic, timeout=ANSWER_S).topics
    return bool(topics[topic].partitions[LOST].leader == -1)


def _to(broker: Broker) -> Connection:
    return Connection(broker.bootstrap, threading.Event())

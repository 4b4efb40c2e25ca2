"""Who waits behind real transactions: groups at, below and beyond the LSO, idle ones, and offsets that are pending."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from sqlalchemy import event

from deploy.demo.broker import Broker
from service.clock import wall_clock_ms
from service.domain.partitions.blocked_groups import (
    INACTIVE,
    OFFSETS_TOPIC,
    READS_UNCOMMITTED,
    STALLED_AFTER_MS,
    STOPPED,
    UNSTABLE_OFFSETS,
    WILL_STOP,
    AffectedGroup,
    offsets_partition,
)
from service.domain.partitions.facts import OpenEntry, PartitionObservation, PartitionsBatch, StalledRead
from service.domain.partitions.open_entries import Entry
from service.kafka.client import KafkaClient
from service.kafka.ends import EndsWatcher
from service.kafka.metadata import topic_layout
from service.kafka.producers import describe_producers
from service.kafka.settings import ClientSettings
from service.store.engine import open_reader
from service.store.queries import partitions
from service.store.queries.partitions import read_affected_groups
from service.store.writers.groups import GroupWriter
from service.store.writers.partitions import PartitionWriter
from spark_jobs.judge.group_prober import GroupProber
from tests.helpers import acls
from tests.helpers.acls import BrokerWithAcls
from tests.helpers.brokers import connect
from tests.helpers.commits import commit_offsets
from tests.helpers.stores import SeededCluster
from tests.helpers.waiting import ANSWER_S, OPEN_MS, wait_for, wait_until_equal
from tests.integration.producers import NULL_LOGGER, create_topic, open_producer

pytestmark = pytest.mark.broker

NODE = 1


class Watched:
    """A store that learns how topics of a broker stand, and the watch of groups over it."""

    def __init__(self, broker: Broker, store: str, *topics: str, settings: ClientSettings | None = None) -> None:
        self.cluster = SeededCluster(store, started_ms=wall_clock_ms())
        self.topics = topics
        self.client: KafkaClient = connect(broker.bootstrap)
        self._ends = EndsWatcher(self.client)
        self._writer = PartitionWriter(self.cluster.engine, self.cluster.lease)
        self._since: dict[tuple[str, int], tuple[int, int]] = {}
        self.reader = open_reader(store)
        groups = GroupWriter(self.cluster.engine, self.cluster.lease)
        asks_as = settings or ClientSettings.load(broker.bootstrap, None)
        self.watch = GroupProber(self.reader, groups, self.cluster.id, asks_as)

    def look(self) -> None:
        """All partitions, as the sampler would tell of them."""
        now_ms = wall_clock_ms()
        layouts = {name: layout for name in self.topics if (layout := topic_layout(self.client, name)) is not None}
        looks = []
        for (topic, partition), ends in self._ends.sample(layouts, with_start=True).items():
            assert ends.error == 0
            lso, since_ms = self._since.get((topic, partition), (-1, now_ms))
            since_ms = since_ms if lso == ends.last_stable_offset else now_ms
            self._since[topic, partition] = ends.last_stable_offset, since_ms
            stalled = since_ms if ends.last_stable_offset < ends.high_watermark else None
            numbers = (ends.log_start, ends.last_stable_offset, ends.high_watermark)
            looks.append(
                PartitionObservation(topic, partition, layouts[topic].topic_id, 1, 0, *numbers, now_ms, stalled)
            )
        reads = tuple(self._read(one) for one in looks if one.stalled_since_ms is not None)
        self._writer.apply(PartitionsBatch(now_ms, tuple(looks), reads, is_full=True), now_ms)

    def _read(self, look: PartitionObservation) -> StalledRead:
        place = look.topic, look.partition
        told = describe_producers(self.client, NODE, {look.topic: [look.partition]})[place]
        entries = tuple(
            OpenEntry(*(p.producer_id, p.producer_epoch, p.transaction_start_offset), -1, p.last_timestamp_ms)
            for p in told.producers
            if p.transaction_start_offset >= 0
        )
        return StalledRead(
            *place,
            look.topic_id,
            look.leader_epoch,
            look.last_stable_offset,
            look.high_watermark,
            read_at_ms=look.looked_at_ms,
            first=None,
            described=True,
            entries=entries,
        )

    def stand(self) -> None:
        """Until what stands now has stood for long enough."""
        self.look()
        time.sleep(STALLED_AFTER_MS / 1000 + 0.1)
        self.look()

    def victims(self) -> dict[tuple[str, str, int], AffectedGroup]:
        with self.reader.connect() as connection:
            return {one.key: one for one in read_affected_groups(connection, self.cluster.id)}

    def looked(self) -> dict[tuple[str, str, int], AffectedGroup]:
        """The victims by what the partitions are now."""
        self.look()
        return self.victims()

    def home_of(self, group: str) -> int:
        """Its partition of __consumer_offsets, as Kafka tells: where its offsets lie."""
        layout = topic_layout(self.client, OFFSETS_TOPIC)
        assert layout is not None
        return offsets_partition(group, len(layout.leaders))

    def entries(self, topic: str, partition: int) -> list[Entry]:
        """What is open there."""
        with self.reader.connect() as connection:
            return partitions.entries(connection, self.cluster.id, [(topic, partition)])

    def rows(self) -> int:
        with self.reader.connect() as connection:
            return len(partitions.groups(connection, self.cluster.id))

    def close(self) -> None:
        self.watch.close()
        self.client.close()
        self.reader.dispose()
        self.cluster.close()


@contextmanager
def watched(broker: Broker, tmp_path: Path, *topics: str, settings: ClientSettings | None = None) -> Iterator[Watched]:
    found = Watched(broker, f"sqlite:///{tmp_path / 'store.db'}", *topics, OFFSETS_TOPIC, settings=settings)
    try:
        yield found
    finally:
        found.close()


@contextmanager
def member(bootstrap: str, group: str, topic: str) -> Iterator[Consumer]:
    """Of a group that has the topic."""
    one = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "logger": NULL_LOGGER}
    )
    try:
        one.subscribe([topic])
        wait_for(lambda: (one.poll(0.1), one.assignment())[1], f"a partition for {group}")
        yield one
    finally:
        one.close()


def commit(one: Consumer, topic: str, offset: int) -> None:
    commit_offsets(one, {(topic, 0): offset})


def write(producer: Producer, topic: str, records: int) -> None:
    for _ in range(records):
        producer.produce(topic, b"payload", partition=0)
    producer.flush(ANSWER_S)


def relations(found: dict[tuple[str, str, int], AffectedGroup], topic: str) -> dict[str, str]:
    return {group: one.relation for (group, of, _), one in found.items() if of == topic}


def test_who_waits_behind_an_open_transaction(broker: Broker, tmp_path: Path) -> None:
    topic, calm = f"groups-{broker.version}", f"groups-calm-{broker.version}"
    for name in (topic, calm):
        create_topic(broker.bootstrap, name, 1)
    producer = open_producer(broker.bootstrap, f"groups-open-{broker.version}", OPEN_MS)
    for name in (topic, calm):
        producer.begin_transaction()
        write(producer, name, 3)
        producer.commit_transaction(ANSWER_S)  # the marker is at 3
    names = {name: f"{name}-{broker.version}" for name in ("at", "below", "beyond", "idle", "eos")}
    with ExitStack() as stack:
        for name, offset in {"at": 4, "below": 3, "beyond": 6}.items():
            commit(stack.enter_context(member(broker.bootstrap, names[name], topic)), topic, offset)
        with member(broker.bootstrap, names["idle"], topic) as idle:
            commit(idle, topic, 4)
        eos = stack.enter_context(member(broker.bootstrap, names["eos"], calm))
        commit(eos, calm, 1)
        one = stack.enter_context(watched(broker, tmp_path, topic, calm))
        one.stand()
        one.watch.round(wall_clock_ms())
        assert one.victims() == {}  # everything is decided: nobody waits, whatever the lags are

        producer.begin_transaction()
        write(producer, topic, 2)
        producer.send_offsets_to_transaction([TopicPartition(calm, 0, 2)], eos.consumer_group_metadata(), ANSWER_S)
        one.stand()
        one.watch.round(wall_clock_ms())
        # the LSO was looked at before the group was asked, and may be there by now
        assert names["beyond"] not in relations(one.victims(), topic)
        one.look()
        found = one.victims()
        assert relations(found, topic) == {
            names["at"]: STOPPED,
            names["below"]: WILL_STOP,
            names["beyond"]: READS_UNCOMMITTED,
            names["idle"]: INACTIVE,
        }
        at = found[names["at"], topic, 0]
        assert at.ends is not None
        assert (at.offset.committed_offset, at.stalled_lso, at.ends.high_watermark, at.offset.members) == (4, 4, 6, 1)
        assert found[names["idle"], topic, 0].offset.members == 0
        assert relations(found, calm) == {names["eos"]: UNSTABLE_OFFSETS}
        pending = found[names["eos"], calm, 0]
        assert pending.offset.committed_offset == 1  # the one before
        assert pending.ends is not None
        assert pending.ends.last_stable_offset == pending.ends.high_watermark
        home = one.home_of(names["eos"])
        assert (pending.stalled_partition, pending.offsets_partition) == ((OFFSETS_TOPIC, home), home)

        producer.commit_transaction(ANSWER_S)

        wait_until_equal(one.looked, {}, "who is said to wait where all is decided")
        one.watch.round(wall_clock_ms())
        assert one.rows() == 0


def test_a_group_whose_first_commit_is_pending_is_named_by_the_batch_that_has_it(
    broker: Broker, tmp_path: Path
) -> None:
    topic, group = f"groups-first-{broker.version}", f"first-{broker.version}"
    create_topic(broker.bootstrap, topic, 2)
    producer = open_producer(broker.bootstrap, group, OPEN_MS)
    with member(broker.bootstrap, group, topic) as one, watched(broker, tmp_path, topic) as seen:
        producer.begin_transaction()
        pending = [TopicPartition(topic, 0, 1), TopicPartition(topic, 1, 2)]
        producer.send_offsets_to_transaction(pending, one.consumer_group_metadata(), ANSWER_S)
        seen.stand()
        seen.watch.round(wall_clock_ms())
        found = seen.victims()
        assert found.keys() == {(group, topic, 0), (group, topic, 1)}
        for victim in found.values():
            assert (victim.relation, victim.offset.committed_offset) == (UNSTABLE_OFFSETS, -1)
            assert victim.offset.members == 1
            assert victim.stalled_partition == (OFFSETS_TOPIC, seen.home_of(group))
            assert [entry.producer_id for entry in seen.entries(*victim.stalled_partition)] == [
                victim.waits_for_producer_id
            ]
        assert seen.watch.unread == ()

        producer.abort_transaction(ANSWER_S)
        wait_until_equal(seen.looked, {}, "who is said to wait where all is decided")
        seen.watch.round(wall_clock_ms())
        assert seen.rows() == 0


def test_two_hundred_groups_are_known_in_one_round(broker_431: Broker, tmp_path: Path) -> None:
    topic = "groups-many"
    create_topic(broker_431.bootstrap, topic, 1)
    names = [f"many-{number:03d}" for number in range(200)]
    for name in names:
        one = Consumer({"bootstrap.servers": broker_431.bootstrap, "group.id": name, "logger": NULL_LOGGER})
        commit(one, topic, 0)
        one.close()
    producer = open_producer(broker_431.bootstrap, "groups-many-open", OPEN_MS)
    producer.begin_transaction()
    write(producer, topic, 1)
    try:
        with watched(broker_431, tmp_path, topic) as many:
            many.stand()
            many.watch.round(wall_clock_ms())
            assert relations(many.victims(), topic).keys() >= set(names)
    finally:
        producer.abort_transaction(ANSWER_S)


def test_where_nothing_stands_no_broker_is_asked(broker_431: Broker, tmp_path: Path) -> None:
    topic = "groups-nothing"
    create_topic(broker_431.bootstrap, topic, 1)
    with watched(broker_431, tmp_path, topic) as one:
        one.watch.round(wall_clock_ms())
        one.look()
        written: list[str] = []
        event.listen(one.cluster.engine, "begin", lambda _: written.append("begin"))
        began = time.thread_time()
        for _ in range(20):
            assert one.watch.round(wall_clock_ms()) > 0
        assert time.thread_time() - began < 1
        assert (one.watch.is_connected, written) == (False, [])


def test_a_group_that_may_not_be_asked_about_is_told_and_the_others_are_known(tmp_path: Path) -> None:
    with BrokerWithAcls("4.3.1", tmp_path, ["ann"]) as guarded:
        create_topic(guarded.admin, "orders", 1)
        for name in ("billing", "secret"):
            one = Consumer({"bootstrap.servers": guarded.admin, "group.id": name, "logger": NULL_LOGGER})
            commit(one, "orders", 0)
            one.close()
        producer = open_producer(guarded.admin, "open", OPEN_MS)
        producer.begin_transaction()
        write(producer, "orders", 1)
        guarded.allow("ann", acls.cluster(), "DESCRIBE")
        guarded.allow("ann", acls.topic(), "DESCRIBE")
        guarded.allow("ann", acls.group(), "DESCRIBE")
        guarded.deny("ann", acls.group("secret"), "DESCRIBE")
        ann = ClientSettings.load(guarded.bootstrap, guarded.properties("ann"))
        with watched(guarded.broker, tmp_path, "orders", settings=ann) as seen:
            seen.stand()
            seen.watch.round(wall_clock_ms())
            assert relations(seen.victims(), "orders") == {"billing": INACTIVE}
            assert seen.watch.denied == {"secret"}
        producer.abort_transaction(ANSWER_S)


def test_a_group_that_may_not_be_asked_about_is_named_where_its_offset_is_pending(tmp_path: Path) -> None:
    """READ on `__consumer_offsets` is enough for that."""
    with BrokerWithAcls("4.3.1", tmp_path, ["ann"]) as guarded:
        create_topic(guarded.admin, "orders", 1)
        producer = open_producer(guarded.admin, "open", OPEN_MS)
        guarded.allow("ann", acls.cluster(), "DESCRIBE")
        guarded.allow("ann", acls.topic(), "READ")
        ann = ClientSettings.load(guarded.bootstrap, guarded.properties("ann"))
        with (
            member(guarded.admin, "secret", "orders") as one,
            watched(guarded.broker, tmp_path, "orders", settings=ann) as seen,
        ):
            producer.begin_transaction()
            producer.send_offsets_to_transaction(
                [TopicPartition("orders", 0, 1)], one.consumer_group_metadata(), ANSWER_S
            )
            seen.stand()
            seen.watch.round(wall_clock_ms())
            (victim,) = seen.victims().values()
            assert victim.key == ("secret", "orders", 0)
            assert (victim.relation, victim.offset.members) == (UNSTABLE_OFFSETS, None)
            assert seen.watch.denied == {"secret"}
            producer.abort_transaction(ANSWER_S)

"""Helpers for tests of consumer groups. They store samples of a real broker's topics, run the prober of groups, and
start group members."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer

from deploy.demo.broker import Broker
from deploy.demo.child_process import ChildProcess
from service.clock import wall_clock_ms
from service.domain.partitions.blocked_groups import STALLED_AFTER_MS, AffectedGroup
from service.domain.partitions.facts import OpenEntry, PartitionObservation, PartitionsBatch, StalledRead
from service.domain.partitions.group_offsets import OFFSETS_TOPIC, offsets_partition
from service.domain.partitions.open_entries import Entry
from service.kafka.client import KafkaClient
from service.kafka.cluster import topic_layout
from service.kafka.ends import EndsWatcher
from service.kafka.producers import describe_producers
from service.kafka.settings import ClientSettings
from service.store.engine import open_reader
from service.store.queries import partitions
from service.store.queries.partitions import read_affected_groups
from service.store.writers.groups import GroupWriter
from service.store.writers.partitions import PartitionWriter
from spark_jobs.judge.group_prober import GroupProber
from tests.helpers.brokers import connect
from tests.helpers.commits import commit_offsets
from tests.helpers.stores import SeededCluster
from tests.helpers.waiting import ANSWER_S, OPEN_MS, wait_for
from tests.integration.producers import NULL_LOGGER, open_producer

NODE = 1
PAYLOAD = b"payload"


class Watched:
    """A store with samples of a broker's topics, and the prober of groups that uses the store."""

    def __init__(self, broker: Broker, store: str, *topics: str, settings: ClientSettings | None = None) -> None:
        self.cluster = SeededCluster(store, started_ms=wall_clock_ms())
        self.topics = topics
        self.client: KafkaClient = connect(broker.bootstrap)
        self._ends = EndsWatcher(self.client)
        self._writer = PartitionWriter(self.cluster.engine, self.cluster.lease)
        self._since: dict[tuple[str, int], tuple[int, int]] = {}
        self._ahead_ms = 0
        self.reader = open_reader(store)
        groups = GroupWriter(self.cluster.engine, self.cluster.lease)
        asks_as = settings or ClientSettings.load(broker.bootstrap, None)
        self.watch = GroupProber(self.reader, groups, self.cluster.id, asks_as)

    def look(self) -> None:
        """Samples all partitions of the topics, and reads the open transactions on the stalled partitions. Stores the
        samples and the transactions as the sampler would."""
        now_ms = wall_clock_ms() + self._ahead_ms
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
        reads = tuple(self._read(look) for look in looks if look.stalled_since_ms is not None)
        self._writer.apply(PartitionsBatch(now_ms, tuple(looks), reads, is_full=True), now_ms)

    def _read(self, look: PartitionObservation) -> StalledRead:
        place = look.topic, look.partition
        reported = describe_producers(self.client, NODE, {look.topic: [look.partition]})[place]
        entries = tuple(
            OpenEntry(*(p.producer_id, p.producer_epoch, p.transaction_start_offset), -1, p.last_timestamp_ms)
            for p in reported.producers
            if p.transaction_start_offset >= 0
        )
        return StalledRead(
            *place,
            look.topic_id,
            look.last_stable_offset,
            read_at_ms=look.observed_at_ms,
            first=None,
            described=True,
            entries=entries,
        )

    def stand(self) -> None:
        """Waits until every partition that is stalled now has been stalled for STALLED_AFTER_MS."""
        self.look()
        time.sleep(STALLED_AFTER_MS / 1000 + 0.1)
        self.look()

    def stand_and_round(self) -> dict[tuple[str, str, int], AffectedGroup]:
        """Waits until every partition that is stalled now has been stalled for STALLED_AFTER_MS. Then runs a round, and
        returns the blocked groups."""
        self.stand()
        self.watch.round(wall_clock_ms())
        return self.victims()

    def after(self, seconds: float) -> dict[tuple[str, str, int], AffectedGroup]:
        """Moves our clock forward by `seconds`. Samples the partitions in the middle and at the end of this time. Then
        runs a round as of the first of the two samples. Returns the blocked groups."""
        for _ in range(2):
            self._ahead_ms += round(seconds * 500)
            self.look()
        self.watch.round(wall_clock_ms() + self._ahead_ms - round(seconds * 500))
        return self.victims()

    def victims(self) -> dict[tuple[str, str, int], AffectedGroup]:
        with self.reader.connect() as connection:
            return {
                affected_group.key: affected_group
                for affected_group in read_affected_groups(connection, self.cluster.id)
            }

    def looked(self) -> dict[tuple[str, str, int], AffectedGroup]:
        """Samples the partitions, and returns the groups that are blocked now."""
        self.look()
        return self.victims()

    def home_of(self, group: str) -> int:
        """Returns the partition of `__consumer_offsets` that has the group's offsets."""
        layout = topic_layout(self.client, OFFSETS_TOPIC)
        assert layout is not None
        return offsets_partition(group, len(layout.leaders))

    def entries(self, topic: str, partition: int) -> list[Entry]:
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


def hold_open(bootstrap: str, name: str, topic: str, records: int) -> Producer:
    """Returns a producer with an open transaction of `records` records on partition 0 of the topic."""
    producer = open_producer(bootstrap, name, OPEN_MS)
    producer.begin_transaction()
    write(producer, topic, records)
    return producer


@contextmanager
def watched(broker: Broker, tmp_path: Path, *topics: str, settings: ClientSettings | None = None) -> Iterator[Watched]:
    found = Watched(broker, f"sqlite:///{tmp_path / 'store.db'}", *topics, OFFSETS_TOPIC, settings=settings)
    try:
        yield found
    finally:
        found.close()


@contextmanager
def member(bootstrap: str, group: str, topic: str, **properties: str) -> Iterator[Consumer]:
    """Yields a new member of a group. At least one partition of the topic is assigned to the member."""
    one = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "logger": NULL_LOGGER}
        | {name.replace("_", "."): value for name, value in properties.items()}
    )
    try:
        one.subscribe([topic])
        wait_for(lambda: (one.poll(0.1), one.assignment())[1], f"a partition assigned to {group}")
        yield one
    finally:
        one.close()


@contextmanager
def share_consumer(broker: Broker, group: str, topic: str, directory: Path) -> Iterator[Callable[[], int]]:
    """Runs Kafka's own console consumer in a share group. Yields a function that returns the number of records printed
    so far. The function counts only lines that equal PAYLOAD, because the file also contains the consumer's log."""
    printed = directory / f"{group}.out"
    command = broker.tool_command(
        *("org.apache.kafka.tools.consumer.ConsoleShareConsumer", "--bootstrap-server", broker.bootstrap),
        *("--topic", topic, "--group", group),
    )
    with printed.open("wb") as out:
        consumer = ChildProcess(command, out)
        try:
            yield lambda: printed.read_text().splitlines().count(PAYLOAD.decode())
        finally:
            consumer.stop()


def commit(consumer: Consumer, topic: str, offset: int) -> None:
    commit_offsets(consumer, {(topic, 0): offset})


def write(producer: Producer, topic: str, records: int) -> None:
    for _ in range(records):
        producer.produce(topic, PAYLOAD, partition=0)
    assert producer.flush(ANSWER_S) == 0


def relations(found: dict[tuple[str, str, int], AffectedGroup], topic: str) -> dict[str, str]:
    return {group: affected_group.relation for (group, of, _), affected_group in found.items() if of == topic}


def read_all(consumer: Consumer, topic: str, until: int) -> None:
    """Reads the records of partition 0 below the offset `until`, and commits this offset."""
    read = [-1]

    def has_read() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            read.append(message.offset())
        return read[-1] >= until - 1

    wait_for(has_read, f"the record at offset {until - 1} to be read")
    commit(consumer, topic, until)

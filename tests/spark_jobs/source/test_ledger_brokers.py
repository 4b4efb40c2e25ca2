"""Tests of the ledger's planner and reader with a real broker, without Spark: added partitions, retention, and a topic
that is created again."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from deploy.demo.broker import Broker
from deploy.demo.workload.raw_producer import Connection
from service.clock import wall_clock_ms
from service.domain.partitions.ledger import LedgerBatch
from service.domain.transaction_log.facts import Gap, RangeRead
from service.kafka.settings import ClientSettings
from spark_jobs.fold.ledger import batches_from_rows
from spark_jobs.source.ledger_planner import LAYOUT_EVERY_MS, LedgerBrokers, LedgerPlanner
from spark_jobs.source.ledger_reader import read_tails
from spark_jobs.source.reader_settings import WatchedTopics
from tests.helpers.brokers import describe_transaction
from tests.helpers.waiting import ANSWER_S, wait_for, wait_until_equal
from tests.integration.producers import add_partitions, create_topic, delete_topics, open_producer
from tests.lab.asking import delete_records

pytestmark = pytest.mark.broker

TOPIC = "ledger-life"


class Tailing:
    """Reads every planned range, and counts the records and commits."""

    def __init__(self, bootstrap: str) -> None:
        self._settings = ClientSettings.load(bootstrap, None)
        self._ahead_ms = 0
        self.planner = LedgerPlanner(LedgerBrokers(self._settings), WatchedTopics((TOPIC,)), {}, self._now_ms)
        self.ranges: dict[int, RangeRead] = {}
        self.gaps: list[Gap] = []
        self.records = self.commits = 0

    def _now_ms(self) -> int:
        return wall_clock_ms() + self._ahead_ms

    def step(self) -> LedgerBatch:
        self._ahead_ms += LAYOUT_EVERY_MS
        plan = self.planner.plan()
        self.planner.advance(plan)
        (batch,) = batches_from_rows(
            pa.Table.from_batches(list(read_tails(self._settings, plan.ranges, wall_clock_ms)))
        )
        self.records += sum(volume.records for volume in batch.volumes)
        self.commits += sum(volume.commits for volume in batch.volumes)
        self.gaps += [topic_range.read.gap for topic_range in batch.ranges if topic_range.read.gap]
        self.ranges |= {topic_range.read.partition: topic_range.read for topic_range in batch.ranges}
        return batch

    def until(self, records: int, commits: int) -> None:
        def read() -> tuple[int, int]:
            if (self.records, self.commits) != (records, commits):
                self.step()
            return self.records, self.commits

        wait_until_equal(read, (records, commits), "the records and commits that are read")


def test_a_tailed_topic_is_followed_through_its_life(broker_431: Broker) -> None:
    create_topic(broker_431.bootstrap, TOPIC, 2)

    def write(partition: int, records: int) -> None:
        producer = open_producer(broker_431.bootstrap, TOPIC, codec="zstd")  # a producer that knows all partitions
        producer.begin_transaction()
        for _ in range(records):
            producer.produce(TOPIC, b"payload" * 20, partition=partition)
        producer.commit_transaction(ANSWER_S)
        # a commit returns before its marker is written, so wait until the transaction is complete
        wait_until_equal(
            lambda: describe_transaction(broker_431.bootstrap, TOPIC).state, "CompleteCommit", "the state of the writer"
        )

    write(0, 5)
    tailing = Tailing(broker_431.bootstrap)
    wait_for(lambda: tailing.step() and tailing.ranges, "the first ranges")
    assert (tailing.records, tailing.ranges[0].lo) == (0, 6)
    write(0, 7)
    write(1, 3)
    tailing.until(10, 2)

    add_partitions(broker_431.bootstrap, TOPIC, 3)
    write(2, 4)
    tailing.until(14, 3)

    for _ in range(3):
        write(1, 2)
    with Connection(broker_431.bootstrap, threading.Event()) as connection:
        delete_records(connection, TOPIC, 1, before=10)
    tailing.until(16, 4)
    assert tailing.gaps == [Gap(4, 10, "retention")]

    delete_topics(broker_431.bootstrap, TOPIC)
    create_topic(broker_431.bootstrap, TOPIC, 1)
    write(0, 1)
    tailing.until(17, 5)
    assert {gap.reason for gap in tailing.gaps[1:]} == {"recreated"}
    assert (tailing.ranges[0].generation, tailing.ranges[2].is_gone) == (1, True)
    tailing.planner.close()

"""Tests of tailed partitions, from a broker through Spark into the store. The counts must equal those in Kafka's own
log files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from deploy.demo.broker import Broker
from service.domain.source_state import SourceName
from service.kafka.cluster import topic_layout
from service.kafka.offsets import LATEST, list_offsets
from service.store.schema import counters, log_partitions, partition_markers, partition_minutes, source_status
from service.store.schema.history import AUDITED
from tests.helpers.brokers import connect, on
from tests.helpers.stores import client_of
from tests.helpers.waiting import ANSWER_S, wait_for, wait_until_equal
from tests.integration.application import Ingest, running
from tests.integration.producers import create_topic, open_producer, plain_producer
from tests.service.wire.dumps import DumpedBatch, read_dump

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]

TOPIC = "ledger-pay"
MINUTE_MS = 60_000


def tailing(broker: Broker, directory: Path) -> Ingest:
    return Ingest(broker.bootstrap, directory, "--partitions", "all", "--topics", TOPIC)


def write(producer: Producer, transactions: int) -> None:
    """Aborts every third transaction, and commits the others. Each transaction has records on both partitions."""
    for n in range(transactions):
        producer.begin_transaction()
        for partition, records in ((0, 5), (1, 1 + n % 3)):
            for _ in range(records):
                producer.produce(TOPIC, b"payload" * 50, partition=partition)
        producer.flush(ANSWER_S)
        (producer.abort_transaction if n % 3 == 2 else producer.commit_transaction)(ANSWER_S)


def write_plain(broker: Broker, records: int) -> None:
    producer = plain_producer(broker.bootstrap)
    for _ in range(records):
        producer.produce(TOPIC, b"plain", partition=1)
    producer.flush(ANSWER_S)


def ends(broker: Broker) -> dict[int, int]:
    with connect(broker.bootstrap) as client:
        layout = topic_layout(client, TOPIC)
        assert layout is not None
        return list_offsets(client, layout, LATEST).found


def positions(app: Ingest) -> dict[int, int]:
    app.is_running()
    return {row.partition: row.next_offset for row in app.rows(log_partitions) if row.source == SourceName.LEDGER}


def wait_until_read(app: Ingest, broker: Broker) -> None:
    wait_until_equal(lambda: positions(app), ends(broker), f"the positions of the ledger ({app.log})")


def dumped(broker: Broker, directory: Path, partition: int, from_offset: int) -> list[DumpedBatch]:
    """Returns the batches at and above `from_offset` that Kafka's own tool finds in the partition's first file."""
    segment = broker.data / f"{TOPIC}-{partition}" / f"{0:020}.log"
    room = "kafka.tools" if broker.version.startswith("3.") else "org.apache.kafka.tools"
    printed = broker.tool(f"{room}.DumpLogSegments", "--files", str(segment), "--print-data-log")
    copy = directory / f"{partition}.log"
    copy.with_suffix(".dump.txt").write_text(printed)
    return [batch for batch in read_dump(copy).batches if int(batch.words["baseOffset"]) >= from_offset]


def volume_of(batches: list[DumpedBatch]) -> dict[int, list[int]]:
    """Returns a mapping from minute to its numbers of records, bytes, transactional records, commits and aborts."""
    minutes: dict[int, list[int]] = defaultdict(lambda: [0] * 5)
    for words, records in batches:
        sums = minutes[int(words["CreateTime"]) // MINUTE_MS * MINUTE_MS]
        sums[1] += int(words["size"])
        if words["isControl"] == "true":
            (record,) = records
            assert record.marker is not None
            sums[3 if record.marker[0] == "COMMIT" else 4] += 1
        else:
            sums[0] += int(words["count"])
            sums[2] += int(words["count"]) if words["isTransactional"] == "true" else 0
    return dict(minutes)


def markers_of(batches: list[DumpedBatch]) -> list[tuple[Any, ...]]:
    return [
        (record.offset, int(words["producerId"]), int(words["producerEpoch"]), *record.marker, record.timestamp_ms)
        for words, records in batches
        for record in records
        if record.marker
    ]


@on("4.3.1")
def test_counts_match_the_logs_of_kafka_even_after_a_kill(
    brokers: Callable[[str], Broker], version: str, tmp_path: Path
) -> None:
    broker = brokers(version)
    create_topic(broker.bootstrap, TOPIC, 2)
    producer = open_producer(broker.bootstrap, "ledger", codec="lz4")
    write(producer, 4)
    with running(tailing(broker, tmp_path)) as app:
        wait_for(lambda: len(positions(app)) == 2, f"positions of both partitions; {app.log}")
        begun = positions(app)
        assert begun == ends(broker), "tailing must begin at the end, so earlier records are not read"
        write(producer, 20)
        write_plain(broker, 30)
        wait_until_read(app, broker)
        app.kill()
    write(producer, 10)
    with running(tailing(broker, tmp_path)) as app:
        write(producer, 10)
        wait_until_read(app, broker)
        volumes, markers = app.rows(partition_minutes), app.rows(partition_markers)
        assert [row.error for row in app.rows(source_status) if row.source == SourceName.LEDGER] == [None]
        assert app.gaps() == []
        results = {row.label for row in app.rows(counters) if row.name == AUDITED}
        assert "torn" not in results, "no marker was written by hand, so no transaction is torn"
        for p in (0, 1):
            truth = dumped(broker, tmp_path, p, begun[p])
            counted = {row.minute_ms: [*row[4:]] for row in volumes if row.partition == p and row.bytes}
            assert counted == volume_of(truth)
            assert [
                (
                    row.offset,
                    row.producer_id,
                    row.producer_epoch,
                    "COMMIT" if row.is_commit else "ABORT",
                    row.coordinator_epoch,
                    row.at_ms,
                )
                for row in sorted(markers, key=lambda row: row.offset)
                if row.partition == p
            ] == markers_of(truth)
            assert sum(row.commits for row in volumes if row.partition == p) == 14 + 7 + 7
        with client_of(app.url) as client:
            shown = client.get(f"/api/v1/clusters/test/partitions/{TOPIC}/0/markers?limit=1").json()
            (newest,) = shown["items"]
            assert (newest["transactional_id"], newest["marker"]) == ("ledger", "COMMIT")
            sources = {source["source"]: source for source in client.get("/api/v1/clusters/test").json()["sources"]}
            assert sources[SourceName.LEDGER]["caught_up"]
            assert sources[SourceName.LEDGER]["position"] == sum(ends(broker).values())

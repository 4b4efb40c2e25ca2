"""Tests of torn transactions on real brokers. A transaction is torn if its outcome on one partition differs from the
coordinator's decision."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import NewTopic
from fastapi.testclient import TestClient

from deploy.demo.broker import Broker
from deploy.demo.workload.old_producer import OldProducer
from deploy.demo.workload.raw_producer import Connection, RawProducer
from service.app import create_app
from service.domain.findings.kinds import Kind, Severity, Status
from service.domain.source_state import SourceName
from service.kafka.settings import ClientSettings
from service.store.rows.findings import finding_of
from service.store.schema import audited_partitions, counters, log_partitions, unended_records
from service.store.schema.history import AUDITED
from tests.helpers.waiting import OPEN_MS, wait_for, wait_until
from tests.integration.application import Ingest, running
from tests.integration.producers import create_topics, delete_topics
from tests.lab.asking import open_on

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]

PROTOCOLS: Final = [("3.9.2", "old"), ("4.3.1", "old"), ("4.3.1", "TV2")]

AnyProducer = OldProducer | RawProducer


def audited(app: Ingest) -> dict[str, int]:
    """Returns the numbers of transactions audited so far, keyed by result."""
    app.is_running()
    return {row.label: row.value for row in app.rows(counters) if row.name == AUDITED}


def wait_until_audited(app: Ingest, number: int) -> dict[str, int]:
    what = f"{number} transactions to be audited ({app.log})"
    return wait_until(lambda: audited(app), lambda found: sum(found.values()) >= number, what)


def producer_of(connection: Connection, protocol: str, name: str) -> AnyProducer:
    producer = OldProducer(connection, name) if protocol == "old" else RawProducer(connection, name)
    producer.init(OPEN_MS)
    return producer


def write(producer: AnyProducer, *topics: str) -> None:
    """Adds partition 0 of each topic to the transaction, and writes a record there."""
    for topic in topics:
        if isinstance(producer, OldProducer):
            producer.add(topic, 0)
        producer.produce(topic, 0, [b"1"])


@pytest.mark.parametrize(("version", "protocol"), PROTOCOLS)
def test_only_a_transaction_with_a_manual_marker_is_torn(
    brokers: Callable[[str], Broker], version: str, protocol: str, tmp_path: Path
) -> None:
    """An operator mistakes a live transaction for a hanging one, and aborts it on a-0 with Kafka's tool. The client
    continues the transaction, and commits it."""
    broker = brokers(version)
    a, b, name = (f"torn-{protocol}-{part}" for part in ("a", "b", "id"))
    create_topics(broker.bootstrap, NewTopic(a, 1, 1), NewTopic(b, 1, 1))
    connection = Connection(broker.bootstrap, threading.Event())

    producer = producer_of(
        connection, protocol, name
    )  # this comes before the start of txnscope, so that the transaction log exists
    with running(Ingest(broker.bootstrap, tmp_path, "--partitions", "all", "--topics", f"torn-{protocol}-*")) as app:
        wait_for(lambda: len(app.rows(audited_partitions)) == 2, f"the audit to begin ({app.log})")
        for n in range(20):
            write(producer, a, b)
            producer.end(commit=n % 4 != 3)
        assert wait_until_audited(app, 20) == {"whole": 20}

        write(producer, a, b)
        (living,) = open_on(connection, a, 0)
        place = ("--topic", a, "--partition", "0", "--start-offset", str(living.start_offset))
        tool = "org.apache.kafka.tools.TransactionsCommand"
        broker.tool(tool, "--bootstrap-server", broker.bootstrap, "abort", *place)
        producer.produce(a, 0, [b"3", b"4"])
        producer.end(commit=True)
        assert wait_until_audited(app, 21) == {"whole": 20, "torn": 1}
        (torn,) = wait_until(
            lambda: app.findings(Kind.TORN), lambda found: len(found) == 1, "one finding about a torn transaction"
        )
        assert (torn.status, torn.severity) == (Status.CONFIRMED, Severity.CRITICAL)
        assert (torn.topic, torn.partition, torn.transactional_id) == (a, 0, name.encode())
        assert finding_of(torn).summary == (
            f"a transaction of {name} was committed, and its part on {a}-0 is aborted; committed on {b}-0"
        )

        write(producer, a, b)
        producer.end(commit=True)
        assert wait_until_audited(app, 22) == {"whole": 21, "torn": 1}
        assert [finding.id for finding in app.findings(Kind.TORN)] == [torn.id]


def tailed(app: Ingest) -> dict[str, str]:
    """Returns the topic id of each tailed topic."""
    app.is_running()
    return {row.topic: row.topic_id for row in app.rows(log_partitions) if row.source == SourceName.LEDGER}


def wait_until_gone(app: Ingest, before: dict[str, str], topics: set[str], again: str) -> None:
    """Waits until txnscope has seen that `topics` are deleted, and that `again` is now another topic with the same
    name. Then waits until txnscope has read the transaction log to its end."""

    def are_seen() -> bool:
        now = tailed(app)
        return not now.keys() & topics and now.get(again, before[again]) != before[again]

    wait_for(are_seen, f"txnscope to see the deletions ({app.log})")
    seen_ms = time.time_ns() // 1_000_000

    def is_read() -> bool:
        app.is_running()
        return all(
            row.end_asked_at_ms > seen_ms
            for row in app.rows(log_partitions)
            if row.source == SourceName.TRANSACTION_LOG
        )

    wait_for(is_read, f"the transaction log to be read to its end after the deletions ({app.log})")


@pytest.mark.parametrize(("version", "protocol"), PROTOCOLS)
def test_a_topic_deleted_inside_a_committed_transaction_tears_it(
    brokers: Callable[[str], Broker], version: str, protocol: str, tmp_path: Path
) -> None:
    """Five topics are deleted, and one of them is created again. A transaction is torn only if it had written to one of
    the five topics, and was committed after the deletion."""
    broker = brokers(version)
    stays, gone, again, aborted, ended, listed = topics = [
        f"goes-{protocol}-{part}" for part in ("stays", "gone", "again", "aborted", "ended", "listed")
    ]
    create_topics(broker.bootstrap, *(NewTopic(topic, 1, 1) for topic in topics))
    connection = Connection(broker.bootstrap, threading.Event())
    of = {topic: producer_of(connection, protocol, f"id-{topic}") for topic in topics[1:]}
    with running(Ingest(broker.bootstrap, tmp_path, "--partitions", "all", "--topics", f"goes-{protocol}-*")) as app:
        wait_for(lambda: len(app.rows(audited_partitions)) == len(topics), f"the audit to begin ({app.log})")
        for topic in (gone, again, aborted):
            write(of[topic], stays, topic)
        writes_nothing = of[listed]
        write(writes_nothing, stays)
        if isinstance(writes_nothing, OldProducer):
            writes_nothing.add(listed, 0)
        write(of[ended], stays, ended)
        open_now = {gone, again, aborted, stays}
        wait_for(
            lambda: open_now <= {row.topic for row in app.rows(unended_records)},
            f"the records of open transactions to be read ({app.log})",
        )
        before = tailed(app)
        of[ended].end(commit=True)
        delete_topics(broker.bootstrap, *topics[1:])
        create_topics(broker.bootstrap, NewTopic(again, 1, 1))
        wait_until_gone(app, before, {gone, aborted, ended, listed}, again)
        assert app.findings(Kind.TORN) == [], "no transaction is torn before its commit"
        for topic in (gone, again, aborted, listed):
            of[topic].end(commit=topic != aborted)
        results = wait_until_audited(app, 5)
        assert results["torn"] == 2
        found = wait_until(
            lambda: app.findings(Kind.TORN), lambda found: len(found) == 2, "two findings about torn transactions"
        )
        assert {finding_of(one).summary for one in found} == {
            f"a transaction of id-{topic} was committed, and its records on {topic}-0 are gone: the topic was deleted"
            f" during the transaction; committed on {stays}-0"
            for topic in (gone, again)
        }

        with TestClient(create_app(app.url, "1.2.3", ClientSettings.load(broker.bootstrap, None))) as client:
            (lone,) = client.get(f"/api/v1/clusters/test/partitions/{again}/0/offsets/0").json()["spans"]
        assert (lone["kind"], lone["marker"], lone["cause"]) == ("marker", "COMMIT", None)
        assert lone["ends_nothing"]

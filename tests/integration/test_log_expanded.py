"""Tests of partitions that are added to a real broker's transaction log. After a restart of the broker, some ids hash
to other partitions, and their old records are left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from deploy.demo.broker import Broker
from deploy.demo.workload.clients import partition_count
from service.clock import wall_clock_ms
from service.domain.findings.kinds import Kind, Severity, Status
from service.domain.transaction_log.states import TOPIC as LOG
from service.remediation.way_out import way_out
from service.store.rows.findings import finding_of
from service.store.schema import clusters, left_behind_records
from service.store.schema import transactional_ids as ids
from service.store.writers.findings import load
from tests.conftest import MakeBroker
from tests.helpers.brokers import connect, on
from tests.helpers.waiting import wait_for, wait_until_equal
from tests.integration.application import Ingest, running
from tests.integration.hang_lab import command_of
from tests.integration.producers import add_partitions, begin, create_topic, open_producer, transact

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]

TIMEOUT_MS = 30_000
PROPERTIES = {
    "transaction.state.log.num.partitions": "5",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


def expand_the_log(broker: Broker, number: int) -> None:
    """Adds partitions to the transaction log, and restarts the broker. A broker uses the old number of partitions until
    its restart."""
    add_partitions(broker.bootstrap, LOG, number)
    wait_until_equal(
        lambda: partition_count(broker.bootstrap, LOG, threading.Event()), number, "the number of partitions of the log"
    )
    broker.stop()
    broker.start()


def confirmed(app: Ingest, kind: Kind) -> list[Any]:
    app.is_running()
    return app.findings(kind, status=Status.CONFIRMED)


def wait_for_hang(app: Ingest) -> Any:
    return wait_for(lambda: confirmed(app, Kind.HANGING), f"the hanging transaction; {app.log}")[0]


def assert_left_behind(app: Ingest) -> None:
    """Asserts what must hold after the log has been expanded, in whatever order the log is read."""
    places = {row.transactional_id: (row.partition, row.producer_id) for row in app.rows(ids)}
    assert {name: partition for name, (partition, _) in places.items()} == {
        b"exp-a": 0,
        b"exp-b": 1,
        b"exp-c": 3,
        b"pay-1": 4,
    }
    (left,) = app.rows(left_behind_records)
    assert (left.transactional_id, left.partition) == (b"exp-c", 2)
    assert left.producer_id != places[b"exp-c"][1]
    hang = wait_for_hang(app)
    assert (hang.transactional_id, hang.topic, hang.partition) == (b"exp-a", "orders-a", 0)
    assert (hang.decision, hang.possible) == ("none", ["none"])
    assert "abort --topic orders-a --partition 0 --start-offset 0" in (command_of(hang) or "")
    (expanded,) = wait_for(
        lambda: confirmed(app, Kind.LOG_EXPANDED), f"the finding about the added partitions; {app.log}"
    )
    assert (expanded.severity, expanded.count) == (Severity.CRITICAL, 3)
    assert "the transaction log has 8 partitions now; 3 ids have records" in finding_of(expanded).observation.title
    wait_until_equal(lambda: confirmed(app, Kind.OVERDUE), [], "overdue transactions")
    assert app.findings(Kind.COORDINATOR_MISMATCH) == []


def assert_resolve_would_abort(app: Ingest, broker: Broker) -> None:
    """Asserts that `resolve` would write an ABORT. The id need not be fenced, because every broker answers that it does
    not know the id."""
    with app.reader() as engine, connect(broker.bootstrap) as client:
        (cluster,) = app.rows(clusters)
        with engine.connect() as connection:
            known = load(connection, cluster.id, wall_clock_ms())
        finding = next(finding for (kind, _), finding in known.items() if kind == Kind.HANGING)
        way = way_out(finding, cluster.id, client, engine.connect, wall_clock_ms)
    assert (way.marker, way.topic, way.start_offset) == ("ABORT", "orders-a", 0)


@pytest.fixture
def everything() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@on("3.9.2")
def test_transactions_left_behind_hang_and_no_coordinator_is_blamed(
    everything: ExitStack, version: str, make_broker: MakeBroker, tmp_path: Path
) -> None:
    broker = make_broker(version, **PROPERTIES)
    for topic in ("orders", "orders-a"):
        create_topic(broker.bootstrap, topic)
    transact(open_producer(broker.bootstrap, "exp-b"), "orders")
    transact(open_producer(broker.bootstrap, "exp-c"), "orders")
    followed, first = tmp_path / "followed", tmp_path / "first"
    followed.mkdir()
    first.mkdir()
    app = everything.enter_context(running(Ingest(broker.bootstrap, followed)))
    app.wait_until_read()
    left_open = [begin(broker.bootstrap, *one, TIMEOUT_MS) for one in (("exp-a", "orders-a"), ("pay-1", "orders"))]
    expand_the_log(broker, 8)
    transact(open_producer(broker.bootstrap, "exp-c"), "orders")
    wait_until_equal(
        lambda: app.state("pay-1"),
        "CompleteAbort",
        "the state of pay-1, which times out and whose log partition did not change",
    )
    assert_left_behind(app)
    fresh = everything.enter_context(running(Ingest(broker.bootstrap, first, name="first")))
    fresh.wait_until_read()
    assert_left_behind(fresh)
    del left_open
    assert_resolve_would_abort(app, broker)
    hang = wait_for_hang(app)
    arguments = (command_of(hang) or "").split()[1:]
    broker.tool("org.apache.kafka.tools.TransactionsCommand", *arguments)
    wait_until_equal(lambda: confirmed(app, Kind.HANGING), [], "the hanging findings after the abort by hand")
    assert confirmed(app, Kind.OVERDUE) == []

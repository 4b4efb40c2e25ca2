"""Tests that frameworks which take over transactional.ids by design get no wrong finding.

The frameworks are Kafka Connect, which fences its tasks after a reconfiguration, and Spring with a producer for each
input partition, during rebalances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from deploy.demo.broker import Broker
from service.domain.application_rules import Assigned
from service.domain.applications import LEADER, PER_PARTITION, PER_TASK, Application, Framework, application_of
from service.domain.transaction_log import states
from service.store.queries.behaviours import behaviours
from service.store.rows.findings import finding_of
from service.store.schema import clusters, findings, transactional_ids
from tests.clients.client import READY, Client
from tests.clients.connect_worker import CONNECTORS, FENCED_WITH_MS, GROUP, ROUNDS, TASK_IDS, Worker
from tests.clients.libraries import NotHere, Spring
from tests.helpers.brokers import free_port
from tests.helpers.brokers import transactional_ids as listed_ids
from tests.helpers.threads import repeated
from tests.helpers.waiting import ANSWER_S, wait_until_equal
from tests.integration import kafka_tools
from tests.integration.application import Ingest, ingesting
from tests.integration.causes_lab import aborts_of
from tests.integration.kafka_tools import Printed
from tests.integration.named_applications import NAMED, Named, wait_until_named
from tests.integration.producers import create_topic, plain_producer

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns("file")]

SOURCE: Final = "in"
TARGET: Final = "out"
PARTITIONS: Final = 3
RELAYS: Final = [f"tx.g.{SOURCE}.{partition}" for partition in range(PARTITIONS)]
TRUTH: Final = {
    Framework.KAFKA_CONNECT: {
        f"connect-cluster-{GROUP}": Assigned(GROUP, Framework.KAFKA_CONNECT),
        **{name: Assigned(name.rpartition("-")[0], Framework.KAFKA_CONNECT) for name in TASK_IDS},
    },
    Framework.SPRING: dict.fromkeys(RELAYS, Assigned("tx.g", Framework.SPRING)),
}
"""The true applications of ids, keyed by framework and by id."""
REBALANCES: Final = 3
"""Number of times that a second instance starts and stops."""


class Seen(NamedTuple):
    """The results after the whole run. The keys of `rows`, `history` and `makers` are ids."""

    findings: list[Any]
    rows: dict[str, Any]
    history: dict[str, list[Printed]]
    makers: dict[str, Application]
    named: dict[Framework, Named]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    directory = tmp_path_factory.mktemp("takeovers")
    with Broker("4.3.1", free_port(), directory / "kafka") as broker, ingesting(broker.bootstrap, directory) as app:
        spring = Spring(broker.bootstrap, directory / "spring", "tx.")
        worker = Worker(broker, app, directory)
        try:
            spring.compile()
            worker.compile()
        except NotHere as why:
            pytest.skip(str(why))
        for topic, partitions in {SOURCE: PARTITIONS, TARGET: 1, **dict.fromkeys(CONNECTORS, 2)}.items():
            create_topic(broker.bootstrap, topic, partitions)
        with ThreadPoolExecutor() as pool:
            connecting = pool.submit(worker.live)
            relay(broker, app, spring, directory)
            connecting.result()
        wait_until_equal(
            lambda: "Ongoing" in listed_ids(broker.bootstrap).values(),
            False,
            "the answer to whether a transaction is open",
        )
        app.wait_until_read()
        rows = {row.transactional_id.decode(): row for row in app.rows(transactional_ids)}
        (cluster,) = app.rows(clusters)
        with app.reader() as engine, engine.connect() as connection:
            known = behaviours(connection, cluster.id, [name.encode() for name in rows])
        makers = {behaviour.name: application_of(behaviour, known, {SOURCE: PARTITIONS}) for behaviour in known}
        named = {framework: wait_until_named(app, truth) for framework, truth in TRUTH.items()}
        return Seen(app.rows(findings), rows, kafka_tools.history(broker, broker.bootstrap), makers, named)


def relay(broker: Broker, app: Ingest, spring: Spring, directory: Path) -> None:
    """Runs one instance of the relay. Meanwhile starts and stops a second one, REBALANCES times."""
    command = spring.command(SOURCE, TARGET, "g")
    with feeding(broker.bootstrap), Client(command, directory / "spring-1.log") as first:
        first.wait_for(READY)
        wait_until_equal(
            lambda: [relay for relay in RELAYS if not app.counts().get(relay)],
            [],
            "the relays without counted transactions",
        )
        for _ in range(REBALANCES):
            with Client(command, directory / "spring-2.log") as second:
                second.wait_for(READY)
                app.wait_for_more_commits(RELAYS)
                second.stop()
            app.wait_for_more_commits(RELAYS)
        first.stop()


@contextmanager
def feeding(bootstrap: str) -> Iterator[None]:
    """Writes a record to each partition of SOURCE every 0.2 s during the block."""
    producer = plain_producer(bootstrap)

    def feed() -> None:
        for partition in range(PARTITIONS):
            producer.produce(SOURCE, "record", partition=partition)
        producer.poll(0)

    with repeated(feed, 0.2):
        yield
    producer.flush(ANSWER_S)


def test_wanted_takeovers_cause_no_finding(seen: Seen) -> None:
    assert [(finding.kind, finding_of(finding).summary) for finding in seen.findings] == []


def test_the_leader_and_the_tasks_of_connect_are_recognised(seen: Seen) -> None:
    assert seen.makers[f"connect-cluster-{GROUP}"] == Application(Framework.KAFKA_CONNECT, GROUP, None, LEADER)
    for name in TASK_IDS:
        connector, task = name.removeprefix(f"{GROUP}-").rsplit("-", 1)
        assert seen.makers[name] == Application(Framework.KAFKA_CONNECT, connector, task, PER_TASK)


@pytest.mark.parametrize("framework", TRUTH)
def test_each_id_has_the_application_that_its_framework_is_configured_with(
    seen: Seen, framework: Framework, record_property: Callable[[str, object], None]
) -> None:
    record_property(NAMED, seen.named[framework].figures)
    assert seen.named[framework].rightly == TRUTH[framework].keys(), seen.named[framework]
    assert {name for truth in TRUTH.values() for name in truth} == seen.rows.keys()


def test_connect_fenced_its_tasks_in_each_round(seen: Seen) -> None:
    """If a worker waits too long for the others, Connect begins the round again, and fences the tasks again. So there
    may be more fences than rounds."""
    fences = {
        name: sum(
            printed.state == states.EMPTY and printed.timeout_ms == FENCED_WITH_MS for printed in seen.history[name]
        )
        for name in TASK_IDS
    }
    assert min(fences.values()) >= ROUNDS, fences


def test_a_producer_for_each_partition_is_recognised(seen: Seen) -> None:
    expected = [
        Application(Framework.SPRING, "tx.g", f"{SOURCE}-{partition}", PER_PARTITION) for partition in range(PARTITIONS)
    ]
    assert [seen.makers[name] for name in RELAYS] == expected


def test_counts_are_those_of_the_log(seen: Seen) -> None:
    expected = kafka_tools.ends_of(seen.history)
    assert {name: (row.commits, sum(aborts_of(row).values())) for name, row in seen.rows.items()} == expected
    assert all(expected[name][0] > ROUNDS for name in TASK_IDS)

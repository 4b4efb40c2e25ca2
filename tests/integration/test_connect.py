"""A Kafka Connect worker that writes exactly once gets no word that its operator would call wrong, through
reconfigurations (each a round of fencing of the connector's tasks), `kill -9` and a restart."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from deploy.demo.broker import Broker
from service.domain.applications import CONNECT, LEADER, PER_TASK, Application, application_of
from service.domain.findings import kinds
from service.domain.transaction_log import states
from service.store.queries.applications import behaviours
from service.store.schema import clusters, findings, transactional_ids
from tests.clients.libraries import Connect
from tests.helpers.brokers import free_port
from tests.helpers.waiting import LIMIT_S, wait_for, wait_until_equal
from tests.integration import kafka_tools
from tests.integration.application import Ingest, ingesting
from tests.integration.causes_lab import aborts_of
from tests.integration.kafka_tools import Printed
from tests.integration.producers import create_topic

pytestmark = [pytest.mark.broker, pytest.mark.spark]

GROUP: Final = "east-1"
CONNECTORS: Final = ("orders", "order-lines")
ROUNDS: Final = 3

ALLOWED: Final = frozenset({kinds.FENCING_CONFLICT})
"""What a round of fencing is, is tested with the rules for it."""


class Seen(NamedTuple):
    """Everything, once it is over; by id."""

    findings: list[Any]
    rows: dict[str, Any]
    history: dict[str, list[Printed]]
    makers: dict[str, Application]


class Worker:
    """The worker, and the files that its connectors read."""

    def __init__(self, broker: Broker, app: Ingest, directory: Path) -> None:
        self._app, self._directory = app, directory
        self._connect = Connect(broker.bootstrap, directory, GROUP, free_port())
        self._lines: Counter[str] = Counter()

    def live(self) -> None:
        with self._running() as process:
            for name in CONNECTORS:
                self._configure(name, 0)
            self._deliver()
            for number in range(1, ROUNDS + 1):
                for name in CONNECTORS:
                    self._configure(name, number)
                self._deliver()
            process.kill()
        with self._running():
            self._deliver()
        self._app.wait_until_read()

    def _configure(self, name: str, number: int) -> None:
        settings = {
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "exactly.once.support": "required",
            "file": str(self._directory / f"{name}.txt"),
            "topic": name,
            "batch.size": str(2_000 + number),
        }
        (self._directory / f"{name}.txt").touch()
        body = json.dumps(settings).encode()
        wait_for(lambda: self._ask(f"connectors/{name}/config", body), f"connector {name}", retry_on=(OSError,))

    def _deliver(self) -> None:
        """New lines for every connector, until all of them are committed."""
        before = {task: self._app.counts().get(task, (0, 0))[0] for task in map(task_id, CONNECTORS)}
        for name in CONNECTORS:
            self._lines[name] += 1
            with (self._directory / f"{name}.txt").open("a") as file:
                file.write(f"line {self._lines[name]}\n")
        wait_until_equal(
            lambda: [task for task, commits in before.items() if self._app.counts().get(task, (0, 0))[0] <= commits],
            [],
            f"the tasks without a further commit ({self._directory / 'connect.log'})",
        )

    @contextmanager
    def _running(self) -> Iterator[subprocess.Popen[bytes]]:
        with (self._directory / "connect.log").open("ab") as out:
            process = subprocess.Popen(self._connect.command(), stdout=out, stderr=out, stdin=subprocess.DEVNULL)
            try:
                wait_for(lambda: self._ask("connectors") is not None, "the worker's REST", retry_on=(OSError,))
                yield process
            finally:
                process.terminate()
                process.wait(LIMIT_S)

    def _ask(self, path: str, body: bytes | None = None) -> Any:
        """PUT if there is a body. A worker that just starts, or is in a rebalance, answers with an error (OSError)."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._connect.port}/{path}",
            body,
            {"Content-Type": "application/json"},
            method="GET" if body is None else "PUT",
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


def task_id(connector: str) -> str:
    return f"{GROUP}-{connector}-0"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    directory = tmp_path_factory.mktemp("connect")
    with (
        Broker("4.3.1", free_port(), directory / "kafka") as broker,
        ingesting(broker.bootstrap, directory) as app,
    ):
        for name in CONNECTORS:
            create_topic(broker.bootstrap, name, 2)
        Worker(broker, app, directory).live()
        rows = {row.transactional_id.decode(): row for row in app.rows(transactional_ids)}
        (cluster,) = app.rows(clusters)
        with app.reader() as engine, engine.connect() as connection:
            known = behaviours(connection, cluster.id, [name.encode() for name in rows])
        makers = {one.name: application_of(one, known) for one in known}
        return Seen(app.rows(findings), rows, kafka_tools.history(broker, broker.bootstrap), makers)


def test_nothing_is_found(seen: Seen) -> None:
    assert {one.kind for one in seen.findings} <= ALLOWED, [(one.kind, one.title, one.advice) for one in seen.findings]


def test_the_leader_and_the_tasks_are_recognised(seen: Seen) -> None:
    tasks = {task_id(name): Application(CONNECT, name, "0", PER_TASK) for name in CONNECTORS}
    assert seen.makers == {f"connect-cluster-{GROUP}": Application(CONNECT, GROUP, None, LEADER)} | tasks


def test_counts_are_those_of_the_log(seen: Seen) -> None:
    in_log = {name: Counter(one.state for one in records) for name, records in seen.history.items()}
    expected = {name: (n[states.COMPLETE_COMMIT], n[states.COMPLETE_ABORT]) for name, n in in_log.items()}
    assert {name: (row.commits, sum(aborts_of(row).values())) for name, row in seen.rows.items()} == expected
    assert all(expected[task_id(name)][0] > ROUNDS for name in CONNECTORS)

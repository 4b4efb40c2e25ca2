"""Runs a Kafka Connect worker with connectors of two tasks each, which read files exactly once. Connectors are
reconfigured, and the worker is killed."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from deploy.demo.broker import Broker
from tests.clients.libraries import Connect
from tests.helpers.brokers import free_port
from tests.helpers.waiting import LIMIT_S, wait_for, wait_until_equal
from tests.integration.application import Ingest

GROUP: Final = "east-1"
CONNECTORS: Final = ("orders", "order-lines")
TASKS: Final = 2
"""Number of tasks of a connector. Connect fences the previous tasks only if there were at least two."""
TASK_IDS: Final = [f"{GROUP}-{name}-{number}" for name in CONNECTORS for number in range(TASKS)]
ROUNDS: Final = 3
FENCED_WITH_MS: Final = 90_000
"""The transaction timeout (ms) that Connect sets for an id when it fences the id. Connect uses the time limit of
requests to its REST interface."""


class Worker:
    """A Connect worker, and the files that its connectors read."""

    def __init__(self, broker: Broker, app: Ingest, directory: Path) -> None:
        self._app, self._directory = app, directory
        self._connect = Connect(broker.bootstrap, directory, GROUP, free_port())
        self._lines: Counter[str] = Counter()

    def compile(self) -> None:
        """Compiles the connector. Raises NotHere without a JDK."""
        self._connect.compile()

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
            "connector.class": "Lines",
            "tasks.max": str(TASKS),
            "exactly.once.support": "required",
            "file": str(self._directory / f"{name}.txt"),
            "topic": name,
            "round": str(number),
        }
        (self._directory / f"{name}.txt").touch()
        body = json.dumps(settings).encode()
        wait_for(lambda: self._ask(f"connectors/{name}/config", body), f"connector {name}", retry_on=(OSError,))

    def _deliver(self) -> None:
        """Appends a line for every connector, and waits until each task has committed again."""
        before = {task: self._app.counts().get(task, (0, 0))[0] for task in TASK_IDS}
        for name in CONNECTORS:
            self._lines[name] += 1
            with (self._directory / f"{name}.txt").open("a") as file:
                file.write(f"line {self._lines[name]}\n")
        wait_until_equal(
            lambda: [task for task, commits in before.items() if self._app.counts().get(task, (0, 0))[0] <= commits],
            [],
            f"the tasks that have not committed again ({self._directory / 'connect.log'})",
        )

    @contextmanager
    def _running(self) -> Iterator[subprocess.Popen[bytes]]:
        with (self._directory / "connect.log").open("ab") as out:
            process = subprocess.Popen(self._connect.command(), stdout=out, stderr=out, stdin=subprocess.DEVNULL)
            try:
                wait_for(
                    lambda: self._ask("connectors") is not None,
                    "an answer of the worker's REST interface",
                    retry_on=(OSError,),
                )
                yield process
            finally:
                process.terminate()
                process.wait(LIMIT_S)

    def _ask(self, path: str, body: bytes | None = None) -> Any:
        """Sends a request to the worker's REST interface: PUT if there is a body, and GET otherwise. Raises OSError
        while the worker starts, or is in a rebalance."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._connect.port}/{path}",
            body,
            {"Content-Type": "application/json"},
            method="GET" if body is None else "PUT",
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

"""How soon a standby goes on where the instance before it was killed, under load."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from deploy.demo.broker import Broker
from tests.benchmarks.figures import Figure, show
from tests.benchmarks.loading import loading
from tests.benchmarks.prepared_broker import VERSION
from tests.benchmarks.watched import CLUSTER, Rest
from tests.helpers.brokers import free_port
from tests.helpers.paths import ROOT
from tests.helpers.postgres import Postgres
from tests.helpers.processes import send, with_environment
from tests.helpers.waiting import LIMIT_S, wait_until
from tests.integration.producers import create_topic, open_producer, transact

TAKEN_OVER_S = 15.0
MARK = "TXNSCOPE_BENCHMARK_INSTANCE"
TOPIC, PROBE = "payments", "probe"
POLL_S = 0.05
STANDS_BY = "standing by"


def run(rate: int = 200, ids: int = 20, times: int = 5) -> list[Figure]:
    return [figure for store in ("sqlite", "postgresql") for figure in _on(store, rate, ids, times)]


def _on(kind: str, rate: int, ids: int, times: int) -> list[Figure]:
    with ExitStack() as running:
        folder = Path(running.enter_context(TemporaryDirectory(prefix="txnscope-bench-")))
        if kind == "sqlite":
            store = f"sqlite:///{folder}/store.db"
        else:
            store = running.enter_context(running.enter_context(Postgres(is_durable=True)).database(is_empty=True))
        broker = running.enter_context(Broker(VERSION, free_port(), folder / "kafka", {}))
        create_topic(broker.bootstrap, TOPIC, partitions=10)
        open_producer(broker.bootstrap, "creates-the-log")
        port = free_port()
        running.enter_context(_program("serve", ["--port", str(port), "--store", store]))
        seconds = []
        with loading("tests.benchmarks.load", broker.bootstrap, TOPIC, rate, ids):
            instances = [running.enter_context(_ingest(broker.bootstrap, store))]
            _wait_for_commit(broker.bootstrap, port)
            for _ in range(times):
                instances.append(running.enter_context(_ingest(broker.bootstrap, store)))
                instances[-1].wait_until_said(STANDS_BY)
                instances[-2].kill()
                seconds.append(_wait_for_commit(broker.bootstrap, port))
    figures = [
        Figure(f"{kind}: kill -9 → a later commit is seen, the longest of {times}", max(seconds), "s", TAKEN_OVER_S),
        Figure("  the shortest", min(seconds), "s"),
    ]
    show(f"takeover by a standby, {rate} transactions/s of {ids} ids, {kind}", figures)
    return figures


def _wait_for_commit(bootstrap: str, port: int) -> float:
    """Commits once, and returns the seconds until REST shows it."""
    rest, began = Rest(port), time.monotonic()
    probe = f"{PROBE}-{time.time_ns()}"
    transact(open_producer(bootstrap, probe), TOPIC)
    try:
        wait_until(lambda: rest.get("/transaction", id=probe), bool, f"a commit of {probe}")
    finally:
        rest.close()
    return time.monotonic() - began


class _Program:
    """A running `txnscope` command; `said` is what it has printed on stderr."""

    def __init__(self, command: str, arguments: list[str]) -> None:
        self.said: list[str] = []
        self._mark = f"{command}-{time.time_ns()}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "service.cli", command, *arguments],
            cwd=ROOT,
            env=os.environ | {MARK: self._mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def wait_until_said(self, text: str) -> None:
        wait_until(lambda: "\n".join(self.said), lambda said: text in said, repr(text))

    def kill(self) -> None:
        """Kills every process of the instance at once, as a host that dies does."""
        send(signal.SIGKILL, with_environment(MARK, self._mark))
        self.process.wait(LIMIT_S)

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.rstrip())


@contextmanager
def _program(command: str, arguments: list[str]) -> Iterator[_Program]:
    program = _Program(command, arguments)
    try:
        yield program
    finally:
        program.kill()


@contextmanager
def _ingest(bootstrap: str, store: str) -> Iterator[_Program]:
    with (
        TemporaryDirectory(prefix="txnscope-bench-", ignore_cleanup_errors=True) as folder,
        _program(
            "ingest",
            ["--bootstrap-servers", bootstrap, "--cluster", CLUSTER, "--store", store, "--checkpoint", folder],
        ) as program,
    ):
        yield program

"""Measures whether commits are seen as soon when the application of another cluster in the same store is starved, then
killed."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from deploy.demo.broker import Broker
from tests.benchmarks.figures import Figure, percentile, show
from tests.benchmarks.loading import loading
from tests.benchmarks.prepared_broker import VERSION
from tests.benchmarks.probe import Probe
from tests.benchmarks.program import Program, ingesting
from tests.benchmarks.served import serving
from tests.benchmarks.takeover import FIRST_READ
from tests.benchmarks.watched import CLUSTER, Rest
from tests.helpers.brokers import free_port
from tests.helpers.postgres import Postgres
from tests.helpers.processes import send
from tests.integration.producers import create_topic, open_producer

TOPIC = "payments"
TROUBLED = "troubled"
RUNS_S, STOPS_S = 0.1, 0.4
"""A starved process gets a fifth of the time."""
UNMOVED = 1.5
"""Most that the calm cluster's p99 may grow. A quarter of a second, where it is less: that is the noise."""


def run(rate: int = 100, ids: int = 10, probes: int = 150) -> list[Figure]:
    """Two clusters under the same load in one PostgreSQL, each with a broker and an application of its own."""
    with ExitStack() as running:
        folder = Path(running.enter_context(TemporaryDirectory(prefix="txnscope-bench-")))
        store = running.enter_context(running.enter_context(Postgres(is_durable=True)).database(is_empty=True))
        brokers = [_broker(running, folder / name) for name in (CLUSTER, TROUBLED)]
        calm, troubled = (broker.bootstrap for broker in brokers)
        running.enter_context(ingesting(calm, store, CLUSTER)).wait_until_said(FIRST_READ)
        port = running.enter_context(serving(store)).port
        probe = running.enter_context(closing(Probe(calm, Rest(port), TOPIC)))
        for bootstrap in (calm, troubled):
            running.enter_context(loading("tests.benchmarks.load", bootstrap, TOPIC, rate, ids))
        with ingesting(troubled, store, TROUBLED) as other:
            other.wait_until_said(FIRST_READ)
            probe.commit()
            before = _seen_after(probe, probes)
            with _starved(other):
                starved = _seen_after(probe, probes)
        killed = _seen_after(probe, probes)
    bar = max(UNMOVED * before[1], before[1] + 0.25)
    figures = [
        Figure("both go on: commit returns → REST shows it, p50", before[0], "s"),
        Figure("  p99", before[1], "s"),
        Figure("the other is starved: p50", starved[0], "s"),
        Figure("  p99", starved[1], "s", bar),
        Figure("the other is killed: p50", killed[0], "s"),
        Figure("  p99", killed[1], "s", bar),
    ]
    show(f"two clusters in one store, {rate} transactions/s each, postgresql", figures)
    return figures


def _broker(running: ExitStack, folder: Path) -> Broker:
    broker = running.enter_context(Broker(VERSION, free_port(), folder, {}))
    create_topic(broker.bootstrap, TOPIC, partitions=10)
    open_producer(broker.bootstrap, "creates-the-log")
    return broker


def _seen_after(probe: Probe, probes: int) -> tuple[float, float]:
    """Returns p50 and p99 of the seconds until commits are seen."""
    seconds = []
    for _ in range(probes):
        seconds.append(probe.commit())
        time.sleep(0.1)
    return percentile(seconds, 0.5), percentile(seconds, 0.99)


@contextmanager
def _starved(program: Program) -> Iterator[None]:
    """Stops all of its processes for most of the time."""
    over = threading.Event()

    def starve() -> None:
        while not over.wait(RUNS_S):
            processes = program.tree.processes()
            send(signal.SIGSTOP, processes)
            over.wait(STOPS_S)
            send(signal.SIGCONT, processes)

    thread = threading.Thread(target=starve)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()

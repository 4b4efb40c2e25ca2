"""Measures two things under a crowd of hostile and clumsy clients: how fast a service answers its users, and whether
hanging transactions are found. Command: `python -m tests.benchmarks crowd`.

The attacked service reads the store of an application that watches a real broker. The service itself is given the
address of a server that accepts connections and never answers.
"""

from __future__ import annotations

import http.client
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import psutil

from deploy.demo.workload.raw_producer import Connection
from tests.benchmarks.detection import HANGS, late_write
from tests.benchmarks.figures import Figure, percentile, show
from tests.benchmarks.loading import loading
from tests.benchmarks.prepared_broker import bench_broker
from tests.benchmarks.watched import CLUSTER, Polling, Rest, watching
from tests.helpers.brokers import free_port
from tests.helpers.paths import ROOT
from tests.helpers.servers import Served, serving
from tests.helpers.waiting import ANSWER_S, LIMIT_S, wait_for
from tests.integration.producers import create_topic, open_producer, transact
from tests.lab.hangs import UNGUARDED

HEALTHY_MS, METRICS_MS, LOG_BYTES, FOUND_S = 100.0, 500.0, 1_000_000, 5.0
GROWTH_MB: Final = 20.0
"""Growth of memory (MB) that is tolerated, because Python's allocator keeps some memory of clients that have gone."""
CASES: Final = 20
SETTLING_S: Final = 60.0


class Attacked(NamedTuple):
    """The service under attack. Its stderr goes to the file `log`."""

    port: int
    process: psutil.Process
    log: Path

    def took_ms(self, path: str) -> float:
        """Returns the milliseconds until the answer to a GET is read. Raises RuntimeError if the status is not 200."""
        began = time.monotonic()
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)) as connection:
            connection.request("GET", path, headers={"Host": "localhost"})
            answer = connection.getresponse()
            answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status}")
        return (time.monotonic() - began) * 1000

    def memory_mb(self) -> float:
        return float(self.process.memory_full_info().uss) / 1e6


def run(seconds: float = 600, share: float = 1.0) -> list[Figure]:
    """Runs the benchmark for `seconds`. `share`: the fraction of the crowd to run; 1 is the whole crowd."""
    with (
        TemporaryDirectory(prefix="txnscope-bench-") as directory,
        bench_broker(UNGUARDED) as broker,
        watching(broker.bootstrap) as watched,
        Connection(broker.bootstrap, threading.Event()) as connection,
        serving(Served(is_silent=True)) as silent,
    ):
        create_topic(broker.bootstrap, HANGS, partitions=CASES)
        transact(open_producer(broker.bootstrap, "first"), HANGS)
        watched.wait_until_read(1, LIMIT_S)
        with (
            _serving(watched.store, silent, Path(directory) / "log") as attacked,
            loading("tests.benchmarks.crowd_load", attacked.port, CLUSTER, share) as load,
        ):
            figures = list(_measure(attacked, connection, seconds))
        show(f"crowd: {seconds / 60:.0f} minutes, {share:.0%} of the crowd", figures)
        print("answers by client and status:", *load.said)
    return figures


def _measure(attacked: Attacked, connection: Connection, seconds: float) -> Iterator[Figure]:
    watch = _Watch(attacked)
    healthy, ready, metrics = [], [], []
    found: list[float] = []
    began = time.monotonic()
    time.sleep(SETTLING_S)
    before_mb, cpu_s, since = attacked.memory_mb(), sum(attacked.process.cpu_times()[:2]), time.monotonic()
    with watch:
        for case in range(CASES):
            injected = late_write(connection, case)
            until = began + SETTLING_S + (case + 1) * (seconds - SETTLING_S) / CASES
            while time.monotonic() < until or case not in watch.confirmed:
                healthy.append(attacked.took_ms("/-/healthy"))
                ready.append(attacked.took_ms("/-/ready"))
                metrics.append(attacked.took_ms("/metrics"))
                time.sleep(0.5)
            found.append(watch.confirmed[case] - injected.at_s)
    cores = (sum(attacked.process.cpu_times()[:2]) - cpu_s) / (time.monotonic() - since)
    for name, took, bar in (
        ("/-/healthy", healthy, HEALTHY_MS),
        ("/-/ready", ready, None),
        ("/metrics", metrics, METRICS_MS),
    ):
        yield Figure(f"{name}, p50 of {len(took)}", statistics.median(took), "ms")
        yield Figure("  p99", percentile(took, 0.99), "ms", bar)
        yield Figure("  the longest", max(took), "ms")
    yield Figure("late write → confirmed in REST of the attacked service, p50", statistics.median(found), "s")
    yield Figure("  the longest", max(found), "s", FOUND_S)
    yield Figure("CPU of the service", cores, "cores")
    yield Figure("memory after a minute", before_mb, "MB")
    yield Figure("  growth of the memory until the end", attacked.memory_mb() - before_mb, "MB", GROWTH_MB)
    yield Figure("size of the log", attacked.log.stat().st_size, "bytes", LOG_BYTES)


@contextmanager
def _serving(store: str, bootstrap: str, log: Path) -> Iterator[Attacked]:
    port = free_port()
    command = [sys.executable, "-m", "service.cli", "serve", "--store", store, "--port", str(port)]
    with (
        log.open("w") as errors,
        subprocess.Popen([*command, "--bootstrap-servers", bootstrap], cwd=ROOT, stderr=errors) as process,
    ):
        attacked = Attacked(port, psutil.Process(process.pid), log)
        try:
            wait_for(lambda: attacked.took_ms("/-/ready"), "the service", retry_on=(OSError, RuntimeError))
            yield attacked
        finally:
            process.terminate()


class _Watch(Polling):
    """Notes the times (monotonic) at which the attacked service first showed each partition's finding as confirmed."""

    def __init__(self, attacked: Attacked) -> None:
        super().__init__(Rest(attacked.port), 0.2)
        self.confirmed: dict[int, float] = {}

    def look(self) -> None:
        body = self._rest.get("/hanging", limit=200)
        now = time.monotonic()
        for one in body["items"] if body else ():
            self.confirmed.setdefault(one["subject"]["partition"], now)

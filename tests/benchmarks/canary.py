"""Measures the CPU that the canary itself uses, with three brokers and a round every 10 s, and how long its
transactions take."""

from __future__ import annotations

import resource
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from service.domain.canary.rounds import percentile
from service.kafka.settings import ClientSettings
from tests.benchmarks.figures import Figure, show
from tests.helpers.brokers import Cluster
from tests.integration.canary_lab import running_canary, store_of
from tests.integration.producers import open_producer

CORES = 0.05
WARM_UP_ROUNDS = 2
EVERY_MS = 10_000


def run(seconds: float = 60.0) -> list[Figure]:
    with TemporaryDirectory(prefix="txnscope-bench-") as text:
        folder = Path(text)
        with Cluster("4.3.1", folder / "kafka") as cluster, store_of(cluster.bootstrap, folder) as watched:
            open_producer(cluster.bootstrap, "creates the transaction log")
            settings = ClientSettings.load(cluster.bootstrap, None)
            with running_canary(watched, settings, every_ms=EVERY_MS):
                watched.wait_for_rounds(WARM_UP_ROUNDS, *cluster.nodes)
                before_s, began_s = _cpu_s(), time.monotonic()
                time.sleep(seconds)
                cores = (_cpu_s() - before_s) / (time.monotonic() - began_s)
                threads = threading.active_count()
                rounds = watched.coordinators()
    recent = [one for found in rounds.values() for one in found.recent]
    commits, visibles = [one.commit_us for one in recent], [one.visible_us for one in recent]
    figures = [
        Figure("CPU of the canary, 3 coordinators, a round every 10 s", cores, "cores", CORES),
        Figure("its Python threads", threads, ""),
        Figure("begin → commit acknowledged, p50", (percentile(commits, 50) or 0) / 1000, "ms"),
        Figure("begin → commit acknowledged, p99", (percentile(commits, 99) or 0) / 1000, "ms"),
        Figure("commit acknowledged → visible, p50", (percentile(visibles, 50) or 0) / 1000, "ms"),
    ]
    show("the canary", figures)
    return figures


def _cpu_s() -> float:
    """Returns the CPU seconds of this process, threads of librdkafka included."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

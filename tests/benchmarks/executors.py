"""Measures how long commits stay invisible after an executor, and later a worker, of a Spark cluster is killed under
load."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.figures import Figure, percentile, show
from tests.benchmarks.payments import Probe, paying, payments_broker
from tests.benchmarks.program import FIRST_READ, ingesting
from tests.benchmarks.served import serving
from tests.benchmarks.stores import database
from tests.benchmarks.watched import CLUSTER, Rest
from tests.helpers.spark_cluster import SparkCluster, spark_cluster

PAUSE_S = 15.0
WATCHED_S = 40.0
"""Seconds for which commits are watched after each kill. Spark notices the loss of an executor and starts another
within this time."""
CALM_PROBES = 50


def run(rate: int = 200, ids: int = 20, times: int = 3) -> list[Figure]:
    """Runs a standalone cluster of two workers over PostgreSQL. Kills an executor `times` times, one after another,
    then kills one worker for good; the other worker has to continue alone."""
    with ExitStack() as running:
        folder = Path(running.enter_context(TemporaryDirectory(prefix="txnscope-bench-")))
        store = running.enter_context(database("postgresql"))
        broker = running.enter_context(payments_broker())
        spark = running.enter_context(spark_cluster(folder / "spark", workers=2))
        ingest = running.enter_context(ingesting(broker.bootstrap, store, CLUSTER, "--spark-master", spark.url))
        ingest.wait_until_said(FIRST_READ)
        port = running.enter_context(serving(store)).port
        probe = running.enter_context(closing(Probe(broker.bootstrap, Rest(port))))
        probe.commit()
        with paying(broker.bootstrap, rate, ids):
            calm = [probe.commit() for _ in range(CALM_PROBES)]
            pauses = [_pause_after_an_executor(spark, probe) for _ in range(times)]
            spark.workers[0].kill()
            worker_pause = _longest(probe)
    figures = [
        Figure("commit returns → REST shows it, p99 before the kills", percentile(calm, 0.99), "s"),
        Figure(f"an executor is killed: the longest pause of {times}", max(pauses), "s", PAUSE_S),
        Figure("  the shortest", min(pauses), "s"),
        Figure("a worker is killed: the longest pause", worker_pause, "s", PAUSE_S),
    ]
    show(f"a Spark cluster of two workers, {rate} transactions/s of {ids} ids, postgresql", figures)
    return figures


def _pause_after_an_executor(spark: SparkCluster, probe: Probe) -> float:
    spark.executors()[0].send_signal(signal.SIGKILL)
    return _longest(probe)


def _longest(probe: Probe) -> float:
    """Commits again and again, and returns the longest time until a commit was visible."""
    end_s = time.monotonic() + WATCHED_S
    longest = 0.0
    while time.monotonic() < end_s:
        longest = max(longest, probe.commit())
        time.sleep(0.1)
    return longest

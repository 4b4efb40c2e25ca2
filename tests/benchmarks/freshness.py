"""Measures the time until a commit is visible, and the CPU and memory of the application, both under 500 transactions/s
and idle."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import closing

from tests.benchmarks.figures import Figure, percentile, show
from tests.benchmarks.payments import Probe, paying, payments_broker
from tests.benchmarks.process_tree import CpuMeter, PeakMemory, shown
from tests.benchmarks.watched import Watched, watching

P50_S, P99_S, CORES_LOADED, CORES_IDLE, MEMORY_MB = 0.5, 1.0, 1.0, 0.12, 1100.0
PAUSE_S = 0.2
SETTLE_S = 10.0
TIMEOUT_S = 120


def run(rate: int = 500, ids: int = 20, probes: int = 200, idle_s: float = 30.0) -> list[Figure]:
    """Runs a load of `rate` transactions/s by `ids` ids. During the load, commits `probes` times with one more id, and
    awaits each commit before the next."""
    log = {"transaction.state.log.num.partitions": "50", "offsets.topic.num.partitions": "50"}
    with (
        payments_broker(log) as broker,
        watching(broker.bootstrap) as watched,
        PeakMemory(watched.tree, every_s=2.0) as peak,
    ):
        watched.wait_until_read(1, TIMEOUT_S)
        return _measure(broker.bootstrap, watched, peak, rate, ids, probes, idle_s)


def _measure(
    bootstrap: str, watched: Watched, peak: PeakMemory, rate: int, ids: int, probes: int, idle_s: float
) -> list[Figure]:
    with paying(bootstrap, rate, ids) as load:
        time.sleep(SETTLE_S)
        unwatched = CpuMeter(watched.tree)
        time.sleep(SETTLE_S)
        alone = unwatched.cores()
        meter = CpuMeter(watched.tree)
        latencies = list(_probe(bootstrap, watched, probes))
        loaded = meter.cores()
    under_load = watched.tree.pss_mb()
    time.sleep(SETTLE_S / 2)
    meter = CpuMeter(watched.tree)
    time.sleep(idle_s)
    idle = meter.cores()
    done, seconds = load.said
    figures = [
        Figure("transactions/s that the load reached", int(done) / float(seconds), "1/s"),
        Figure("commit returns → REST shows it, p50", statistics.median(latencies), "s", P50_S),
        Figure("commit returns → REST shows it, p99", percentile(latencies, 0.99), "s", P99_S),
        Figure("  the longest", max(latencies), "s"),
        Figure("CPU of the whole application, with load and requests", sum(loaded.values()), "cores", CORES_LOADED),
        Figure("  with load, without requests", sum(alone.values()), "cores"),
        Figure("CPU of the whole application, idle", sum(idle.values()), "cores", CORES_IDLE),
        Figure("memory of the whole application (PSS), peak", peak.mb, "MB", MEMORY_MB),
        Figure("  at the end of the load", sum(under_load.values()), "MB"),
    ]
    show(f"freshness: {len(latencies)} probes, {rate} transactions/s wanted of {ids} ids", figures)
    print(f"with load and requests: {shown(loaded, 'cores')}")
    print(f"with load: {shown(alone, 'cores')}\nidle: {shown(idle, 'cores')}")
    print(f"memory at its peak: {shown(peak.parts, 'MB')}", flush=True)
    return figures


def _probe(bootstrap: str, watched: Watched, probes: int) -> Iterator[float]:
    """Yields, for each commit, the seconds from the return of the commit until REST shows that it is counted."""
    with closing(Probe(bootstrap, watched.rest())) as probe:
        for _ in range(probes):
            yield probe.commit()
            time.sleep(PAUSE_S)

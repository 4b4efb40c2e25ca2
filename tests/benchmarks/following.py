"""Measures the delay until transitions are visible, at rates of 5,000 to 40,000 transitions a second. The log is
written directly, without coordinators."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, Final

from tests.benchmarks.figures import Figure, percentile, show
from tests.benchmarks.loading import loading
from tests.benchmarks.log_load import PARTITIONS, LogWriter, transaction
from tests.benchmarks.prepared_broker import bench_broker
from tests.benchmarks.process_tree import CpuMeter, PeakMemory, shown
from tests.benchmarks.watched import Watched, watching
from tests.integration.producers import open_producer

RATES: Final[Mapping[int, float | None]] = {5_000: 1.0, 10_000: 1.0, 20_000: 2.0, 40_000: None}
"""Rates (transitions/s), each with the bar for the p99 of the delay (s). A rate without a bar (None) only shows where
the application saturates."""
IDS = 2_000
PROBES = ("probe-a", "probe-b", "probe-c", "probe-d", "probe-e")
PROPERTIES = {"transaction.state.log.num.partitions": str(PARTITIONS), "log.cleaner.enable": "false"}
POLL_S = 0.02
PAUSE_S = 0.2
SETTLE_S = 15.0
LOST_AFTER_S = 60.0
TIMEOUT_S = 120


def run(rates: Mapping[int, float | None] = RATES, ids: int = IDS, probes: int = 200) -> list[Figure]:
    """Measures each of `rates` with `ids` ids, on a new broker and a new store. During the load, commits `probes` times
    with a few more ids, and awaits each commit before the next."""
    return [figure for rate, p99_s in rates.items() for figure in _at(rate, p99_s, ids, probes)]


def _at(rate: int, p99_s: float | None, ids: int, probes: int) -> list[Figure]:
    with bench_broker(PROPERTIES) as broker:
        open_producer(broker.bootstrap, "creates-the-log")
        with watching(broker.bootstrap) as watched, PeakMemory(watched.tree, every_s=2.0) as peak:
            watched.wait_until_read(1, TIMEOUT_S)
            return _measure(broker.bootstrap, watched, peak, rate, p99_s, ids, probes)


def _measure(
    bootstrap: str, watched: Watched, peak: PeakMemory, rate: int, p99_s: float | None, ids: int, probes: int
) -> list[Figure]:
    with loading("tests.benchmarks.log_load", bootstrap, rate, ids) as load:
        time.sleep(SETTLE_S)
        meter = CpuMeter(watched.tree)
        latencies = list(_probe(bootstrap, watched, probes))
        cores = meter.cores()
    *acknowledged, seconds = load.said
    records, commits, aborts = map(int, acknowledged)
    caught_up_s = _wait_until_counted(watched, commits + probes, aborts)
    figures = [
        Figure("transitions/s that the load reached", records / float(seconds), "1/s"),
        Figure("write acknowledged → REST shows it, p50", statistics.median(latencies), "s"),
        Figure(f"{rate:,}/s: write acknowledged → REST shows it, p99", percentile(latencies, 0.99), "s", p99_s),
        Figure("  the longest", max(latencies), "s"),
        Figure("  load ends → all transactions are counted, none twice", caught_up_s, "s"),
        Figure("CPU of the whole application, with load and requests", sum(cores.values()), "cores"),
        Figure("memory of the whole application (PSS), peak", peak.mb, "MB"),
    ]
    show(f"following: {len(latencies)} probes, {rate} transitions/s wanted of {ids} ids", figures)
    print(f"CPU: {shown(cores, 'cores')}\nmemory at its peak: {shown(peak.parts, 'MB')}", flush=True)
    return figures


def _probe(bootstrap: str, watched: Watched, probes: int) -> Iterator[float]:
    """Yields, for each CompleteCommit, the seconds from its acknowledgement until REST shows that the commit is
    counted."""
    with closing(LogWriter(bootstrap)) as writer, closing(watched.rest()) as rest:
        for number in range(probes):
            turn, which = divmod(number, len(PROBES))
            for record in transaction(PROBES[which], 9_000 + which, turn):
                writer.write(record)
            written = time.monotonic()
            while True:
                answer = rest.get("/transaction", id=PROBES[which])
                waited = time.monotonic() - written
                if answer is not None and answer["counts"]["commits"] > turn:
                    break
                if waited > LOST_AFTER_S:
                    raise RuntimeError(
                        f"commit {turn} of {PROBES[which]} did not become visible:\n{watched.last_words()}"
                    )
                time.sleep(POLL_S)
            yield waited
            time.sleep(PAUSE_S)


def _wait_until_counted(watched: Watched, commits: int, aborts: int) -> float:
    """Waits until the service's totals are exactly `commits` and `aborts`. Returns the seconds of the wait. The total
    of aborts includes those whose cause is not known yet."""
    began = time.monotonic()
    with closing(watched.rest()) as rest:
        while True:
            reported = _totals(rest.get(""))
            if reported == (commits, aborts):
                return time.monotonic() - began
            if time.monotonic() - began > LOST_AFTER_S:
                raise RuntimeError(
                    f"{commits} commits and {aborts} aborts were written, but the service shows {reported}"
                )
            time.sleep(POLL_S)


def _totals(cluster: Any) -> tuple[int, int] | None:
    """Returns the total (commits, aborts) in the answer about the cluster, or None without an answer."""
    if cluster is None:
        return None
    return cluster["totals"]["commits"], sum(cluster["totals"]["aborts"].values())

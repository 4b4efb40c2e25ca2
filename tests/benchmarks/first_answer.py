"""Measures the time from the start of `txnscope watch` on an empty store to the first complete answer over a long
log."""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

from service.store.engine import open_engine
from tests.benchmarks.figures import Figure, show
from tests.benchmarks.prepared_broker import BenchmarkBroker, prepared_broker
from tests.benchmarks.process_tree import CpuMeter, PeakMemory, shown
from tests.benchmarks.stores import database, size_bytes
from tests.benchmarks.watched import Watched, watching

BAR_S = {"SQLite": 30.0, "PostgreSQL": 40.0}
MEMORY_MB = 1800.0
TIMEOUT_S = 400


def run(records: int = 5_000_000, ids: int = 1_000_000) -> list[Figure]:
    with prepared_broker(records, ids) as broker:
        return measure(broker, ids)


class FirstAnswer(NamedTuple):
    """The figures of one start on an empty store. `page_s`: the part of `answered_s` that the first page of
    transactions took. CPU and peak memory are given by kind of process."""

    answered_s: float
    page_s: float
    stages: tuple[Figure, ...]
    cpu_s: dict[str, float]
    memory_mb: dict[str, float]
    stored_mib: float

    @property
    def peak_mb(self) -> float:
        return sum(self.memory_mb.values())


def measure(broker: BenchmarkBroker, ids: int) -> list[Figure]:
    """Measures with SQLite, then with PostgreSQL. The broker's log holds exactly `ids` ids, and the answer must have
    all of them."""
    figures = _figures(answer_first(broker, ids, None), ids, "SQLite")
    with database("postgresql") as url:
        return figures + _figures(answer_first(broker, ids, url), ids, "PostgreSQL")


def answer_first(broker: BenchmarkBroker, ids: int, store: str | None) -> FirstAnswer:
    """Measures one start. `store` is the URL of the store; None stands for SQLite. The figures exclude the CPU and
    memory of a PostgreSQL server."""
    with watching(broker.bootstrap, store) as watched, PeakMemory(watched.tree) as peak:
        meter = CpuMeter(watched.tree)
        read_s = watched.wait_until_read(ids, TIMEOUT_S)
        with closing(watched.rest()) as rest:
            page = rest.get("/transactions", limit=50)
        assert page is not None
        assert len(page["items"]) == min(50, ids)
        answered_s = watched.elapsed_s()
        cpu_s = {kind: cores * answered_s for kind, cores in meter.cores().items()}
        engine = open_engine(watched.store)
        stored_mib = size_bytes(engine) / 2**20
        engine.dispose()
    return FirstAnswer(answered_s, answered_s - read_s, tuple(_stages(watched)), cpu_s, peak.parts, stored_mib)


def _figures(first: FirstAnswer, ids: int, database: str) -> list[Figure]:
    figures = [
        Figure(f"empty store to the first complete answer, {database}", first.answered_s, "s", BAR_S[database]),
        Figure("  of this time, the first page of transactions", first.page_s, "s"),
        *first.stages,
        Figure("  CPU of all processes", sum(first.cpu_s.values()), "s"),
        Figure("  peak memory of all processes (PSS)", first.peak_mb, "MB", MEMORY_MB),
        Figure("  the store afterwards", first.stored_mib, "MiB"),
    ]
    show(f"first answer, {database}: {ids:,} ids", figures)
    print(f"CPU: {shown(first.cpu_s, 's')}")
    print(f"memory at its peak: {shown(first.memory_mb, 'MB')}", flush=True)
    return figures


def _stages(watched: Watched) -> list[Figure]:
    """Returns the durations of the stages that the application's log shows; empty if the log has no line about the
    first read."""
    reads = [second for second, line in watched.said if "first read of the transaction log" in line]
    bound = next((second for second, line in watched.said if " cluster " in line), 0.0)
    if not reads:
        return []
    return [
        Figure("  until the cluster is known", bound, "s"),
        Figure("  cluster known → first batch stored (Spark's start)", reads[0] - bound, "s"),
        Figure("  first batch stored → all is stored", reads[-1] - reads[0], "s"),
    ]

"""Measures the rate at which the store takes samples of partitions: `python -m tests.benchmarks.partitions_write
[sqlite|postgresql]`."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack

from sqlalchemy import Engine

from service.domain.partitions.facts import FirstBatch, OpenEntry, PartitionObservation, PartitionsBatch, StalledRead
from service.store import clusters, lease, migrate
from service.store.engine import open_engine
from service.store.queries import partitions
from service.store.writers.partitions import PartitionWriter
from tests.helpers.postgres import Postgres

WATCHED = 10_000
A_TOPIC = 50
STALLED = 500
ENTRIES = 4
ROUNDS = 7
BAR_MS = 500
NOW_MS = 1_790_000_000_000


def main(kind: str = "sqlite") -> None:
    """`kind`: of the database to make."""
    with ExitStack() as running:
        if kind == "sqlite":
            url = f"sqlite:///{running.enter_context(tempfile.TemporaryDirectory())}/store.db"
        else:
            server = running.enter_context(Postgres(is_durable=True))
            url = running.enter_context(server.database(is_empty=True))
        engine = open_engine(url)
        running.callback(engine.dispose)
        _measure(engine)


def _measure(engine: Engine) -> None:
    migrate.upgrade(engine)
    cluster_id = clusters.bind(engine, "bench", "bench", NOW_MS)
    held = lease.acquire(engine, cluster_id, "bench", NOW_MS)
    assert held is not None
    writer = PartitionWriter(engine, held)
    writer.apply(PartitionsBatch(NOW_MS, _looks(NOW_MS, WATCHED), is_full=True), NOW_MS)
    kinds: dict[str, Callable[[int], PartitionsBatch]] = {
        f"all {WATCHED:,}": lambda ms: PartitionsBatch(ms, _looks(ms, WATCHED), is_full=True),
        f"all, {STALLED} stalled": lambda ms: PartitionsBatch(
            ms, _looks(ms, WATCHED, STALLED), _reads(ms), is_full=True
        ),
        f"{WATCHED:,} changes": lambda ms: PartitionsBatch(ms, _looks(ms, WATCHED)),
        "400 changes": lambda ms: PartitionsBatch(ms, _looks(ms, 400)),
        "10 changes": lambda ms: PartitionsBatch(ms, _looks(ms, 10)),
    }
    now_ms = NOW_MS
    for name, make in kinds.items():
        took = []
        for _ in range(ROUNDS):
            now_ms += 1_000
            batch = make(now_ms)
            began = time.perf_counter()
            writer.apply(batch, now_ms)
            took.append((time.perf_counter() - began) * 1000)
        print(f"{name:<18} {statistics.median(took):6.1f} ms median {max(took):6.1f} ms worst (bar {BAR_MS} ms)")
    writer.apply(PartitionsBatch(now_ms + 1, _looks(now_ms + 1, WATCHED, STALLED), _reads(now_ms + 1)), now_ms + 1)
    with engine.connect() as connection:
        for read in (partitions.stalled, partitions.entries, partitions.stall_clocks):
            began = time.perf_counter()
            rows = len(read(connection, cluster_id))
            print(f"{read.__name__:<18} {(time.perf_counter() - began) * 1000:6.1f} ms for {rows:,} rows")


def _looks(at_ms: int, count: int, stalled: int = 0) -> tuple[PartitionObservation, ...]:
    """The first `stalled` of them stand at 100; the others have moved."""
    moved = at_ms - NOW_MS + 200
    return tuple(
        PartitionObservation(*_place(n), "T", 1, 3, 0, 100, moved, at_ms, NOW_MS)
        if n < stalled
        else PartitionObservation(*_place(n), "T", 1, 3, 0, moved, moved, at_ms, None)
        for n in range(count)
    )


def _reads(at_ms: int) -> tuple[StalledRead, ...]:
    first = FirstBatch(100, 7, 0, True, False, NOW_MS, NOW_MS)
    entries = tuple(OpenEntry(7 + n, 0, 100 + n, 3, NOW_MS) for n in range(ENTRIES))
    return tuple(StalledRead(*_place(n), "T", 100, at_ms, first, True, entries) for n in range(STALLED))


def _place(number: int) -> tuple[str, int]:
    return f"topic-{number // A_TOPIC:04d}", number % A_TOPIC


if __name__ == "__main__":
    main(*sys.argv[1:])

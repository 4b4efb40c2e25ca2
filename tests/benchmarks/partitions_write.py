"""Measures how long the store takes to store samples of partitions: `python -m tests.benchmarks.partitions_write
[sqlite|postgresql]`."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

from sqlalchemy import Engine

from service.domain.partitions.facts import FirstBatch, OpenEntry, PartitionObservation, PartitionsBatch, StalledRead
from service.store.queries import partitions
from service.store.writers.partitions import PartitionWriter
from tests.benchmarks.stores import begun, opened

WATCHED = 10_000
A_TOPIC = 50
STALLED = 500
ENTRIES = 4
ROUNDS = 7
BAR_MS = 500
NOW_MS = 1_790_000_000_000


def main(kind: str = "sqlite") -> None:
    with opened(kind) as engine:
        _measure(engine)


def _measure(engine: Engine) -> None:
    held = begun(engine, "bench", NOW_MS, NOW_MS)
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
            rows = len(read(connection, held.cluster_id))
            print(f"{read.__name__:<18} {(time.perf_counter() - began) * 1000:6.1f} ms for {rows:,} rows")


def _looks(at_ms: int, count: int, stalled: int = 0) -> tuple[PartitionObservation, ...]:
    """Returns one sample of each of `count` partitions. The first `stalled` partitions are stalled at offset 100; the
    other partitions have moved."""
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

"""Measures the rate at which records are stored: `python -m tests.benchmarks.store_write [IDS [STORE]]`.

IDS is 200,000 by default. STORE is `sqlite` (the default), `postgresql` (a new server whose files are durable, on
disk), or a URL.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Iterator

from sqlalchemy import Engine

from service.domain.source_state import SourceName
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import LogBatch, LogRecord, Minute, MinuteSums, Participants, RangeRead, Run
from service.domain.transaction_log.states import TOPIC
from service.store import progress
from service.store.writers.transaction_log import TransactionLogWriter
from tests.benchmarks.stores import begun, opened, size_bytes
from tests.service.store.logs import as_lone

PARTITIONS = 50
PARTITIONS_A_BATCH = 10
LIVE_BATCHES = 50
RUNS_A_LIVE_BATCH = 500
NOW_MS = 1_790_000_000_000


def main(ids: int, store: str = "sqlite") -> None:
    """Runs the benchmark. `store` is the URL of an empty database, or the kind of database to create."""
    with opened(store) as engine:
        _measure(engine, ids)


def _measure(engine: Engine, ids: int) -> None:
    log = _log(ids)
    held = begun(engine, "bench", NOW_MS, NOW_MS)
    starts = [progress.PartitionStart(p, "T", 0, 0, 0, len(log[p])) for p in range(PARTITIONS)]
    progress.start_positions(engine, held, SourceName.TRANSACTION_LOG, TOPIC, starts, NOW_MS)
    writer = TransactionLogWriter(engine, held)

    seconds, cpu_before = 0.0, time.process_time()
    for batch in _first_read(log):
        began = time.perf_counter()
        writer.apply(batch, NOW_MS)
        seconds += time.perf_counter() - began
    print(
        f"first read   {ids:>9,} ids  {seconds:6.1f} s  {ids / seconds:>9,.0f} ids/s"
        f"  {size_bytes(engine) / 2**20:,.0f} MiB on disk  {time.process_time() - cpu_before:.1f} s of CPU here"
    )

    took = []
    for batch in _live(log):
        began = time.perf_counter()
        writer.apply(batch, NOW_MS)
        took.append((time.perf_counter() - began) * 1000)
    print(
        f"live batch   {RUNS_A_LIVE_BATCH:>9,} ids  {statistics.median(took):6.1f} ms median"
        f"  {max(took):6.1f} ms worst of {LIVE_BATCHES}"
    )
    heartbeat = LogBatch(tuple(_range(log, p, 0) for p in range(PARTITIONS)), (), ())
    began = time.perf_counter()
    for _ in range(LIVE_BATCHES):
        writer.apply(heartbeat, NOW_MS)
    print(f"heartbeat    {PARTITIONS:>9,} ranges  {(time.perf_counter() - began) * 1000 / LIVE_BATCHES:6.1f} ms")


def _log(ids: int) -> list[list[Run]]:
    """Returns the runs of a compacted log: every id once, with scattered producer ids. One transaction in ten is
    open."""
    rng = random.Random(7)
    scattered = rng.sample(range(ids * 4), ids)
    log: list[list[Run]] = [[] for _ in range(PARTITIONS)]
    for number, producer_id in enumerate(scattered):
        partition = rng.randrange(PARTITIONS)
        state = states.ONGOING if rng.random() < 0.1 else states.COMPLETE_COMMIT
        record = _record(len(log[partition]), producer_id, state, NOW_MS - rng.randrange(10**9))
        transactional_id = f"application-{number % 97}-worker-{number:07d}".encode()
        log[partition].append(_run(partition, transactional_id, record, record, 0))
    return log


def _first_read(log: list[list[Run]]) -> Iterator[LogBatch]:
    for first in range(0, PARTITIONS, PARTITIONS_A_BATCH):
        some = range(first, first + PARTITIONS_A_BATCH)
        runs = tuple(run for p in some for run in log[p])
        yield as_lone(LogBatch(tuple(_range(log, p, 0, lo=0)._replace(counts=False) for p in some), runs, ()))


def _live(log: list[list[Run]]) -> Iterator[LogBatch]:
    """Yields batches in which ids of all partitions commit once more."""
    rng = random.Random(8)
    for number in range(LIVE_BATCHES):
        new: list[Run] = []
        ranges: list[RangeRead] = []
        for partition in range(PARTITIONS):
            chosen = rng.sample(log[partition], RUNS_A_LIVE_BATCH // PARTITIONS)
            for run in chosen:
                offset = len(log[partition])
                start_ms = NOW_MS + number
                first = _record(offset, run.last.producer_id, states.ONGOING, start_ms)
                last = _record(offset + 2, run.last.producer_id, states.COMPLETE_COMMIT, start_ms)
                log[partition] += [run] * 3
                new.append(_run(partition, run.transactional_id, first, last, 1))
            ranges.append(_range(log, partition, len(chosen) * 3))
        minutes = tuple(
            Minute(r.partition, r.transactional_id, NOW_MS, MinuteSums(1, 1, 9, 9, 1, 3, 3, NOW_MS, NOW_MS))
            for r in new
        )
        yield LogBatch(tuple(ranges), tuple(new), (), minutes=minutes)


def _range(log: list[list[Run]], partition: int, records: int, lo: int | None = None) -> RangeRead:
    hi = len(log[partition])
    lo = hi - records if lo is None else lo
    return RangeRead(partition, "T", 0, lo, hi, 0, 0, 0, hi, NOW_MS, hi - lo, 0, None)


def _record(offset: int, producer_id: int, state: int, start_ms: int) -> LogRecord:
    partitions = 2 if state == states.ONGOING else 0
    return LogRecord(offset, start_ms, 0, state, producer_id, 1, 60_000, start_ms, start_ms, 2, -1, partitions)


def _run(partition: int, transactional_id: bytes, first: LogRecord, last: LogRecord, commits: int) -> Run:
    topics = (Participants("orders", (3, 4)),) if last.state == states.ONGOING else ()
    end = (last.offset - 1, states.PREPARE_COMMIT, bytes(120)) if commits else (-1, -1, None)
    return Run(partition, transactional_id, first, last, False, 1 + 2 * commits, topics, *end)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000, *sys.argv[2:])

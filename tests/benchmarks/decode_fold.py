"""Measures the rate at which one core decodes bytes of the transaction log, and folds the records into runs
(`facts.Run`). Uses the decoder and the fold of the reader, without Kafka and Spark."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from itertools import zip_longest

from service.wire.columns import decode
from service.wire.log_columns import Chunk
from spark_jobs.fold.transaction_log import Folded, concat, fold, merge
from spark_jobs.fold.transitions import Scope
from spark_jobs.source.reader import FETCH_BYTES, PARTITION_BYTES
from tests.benchmarks.decode import cut, make_log
from tests.benchmarks.figures import Figure, show

BAR = 1.5  # M records/s
PARTITIONS = 12
PARTITIONS_A_TASK = 3

Fetch = list[Chunk]


def run(records: int = 1_200_000, ids: int = 240_000, repeats: int = 7) -> list[Figure]:
    """By default, each partition is as large as one of a log of 5 M records in 50 partitions. A task reads three
    partitions, in Fetches like those of a first read.

    Each record is a batch of its own, as coordinators write it.
    """
    logs = [make_log(records // PARTITIONS, ids // PARTITIONS, p * ids) for p in range(PARTITIONS)]
    tasks = [_fetches(logs[first : first + PARTITIONS_A_TASK]) for first in range(0, PARTITIONS, PARTITIONS_A_TASK)]
    rows = sum(len(decode(fetch)) for task in tasks for fetch in task)
    elapsed, cpu, decoding = [], [], []
    for _ in range(repeats):
        before, cpu_before = time.perf_counter(), time.process_time()
        decoding.append(sum(_decode_and_fold(task) for task in tasks))
        cpu.append(time.process_time() - cpu_before)
        elapsed.append(time.perf_counter() - before)

    one_partition = _fetches([make_log(records, ids)])
    before = time.perf_counter()
    _decode_and_fold(one_partition)
    scattered = time.perf_counter() - before

    def rate(seconds: float) -> float:
        return rows / seconds / 1e6

    figures = [
        Figure("decode + fold on one core, median", rate(statistics.median(elapsed)), "M records/s", BAR, True),
        Figure("  slowest run", rate(max(elapsed)), "M records/s"),
        Figure("  fastest run", rate(min(elapsed)), "M records/s"),
        Figure("  records per second of CPU, median", rate(statistics.median(cpu)), "M records/s"),
        Figure("  share of the time that decoding takes", statistics.median(decoding) / statistics.median(elapsed), ""),
        Figure("  one run with all records in one partition", rate(scattered), "M records/s"),
    ]
    size = sum(map(len, logs)) / rows
    show(f"decode + fold: {rows:,} records of {ids:,} ids, {size:.0f} bytes each, {repeats} runs", figures)
    return figures


def _fetches(logs: Sequence[bytes]) -> list[Fetch]:
    """Returns the answers to the Fetches of the reader. The partitions take turns, piece by piece, and each answer has
    as many pieces as fit."""
    pieces = [[Chunk(p, 0, 2**62, piece) for piece in cut(log, PARTITION_BYTES)] for p, log in enumerate(logs)]
    turns = [chunk for turn in zip_longest(*pieces) for chunk in turn if chunk is not None]
    at_once = FETCH_BYTES // PARTITION_BYTES if len(logs) > 1 else 1
    return [turns[first : first + at_once] for first in range(0, len(turns), at_once)]


def _decode_and_fold(task: Sequence[Fetch]) -> float:
    """Decodes and folds the Fetch answers of a task, and returns the seconds that decoding took. Like source.reader,
    merges all folded pieces into one whenever the later pieces together have at least as many runs as the first
    piece."""
    seconds = 0.0
    folded: list[Folded] = []
    scope = Scope(frozenset(chunk.partition for fetch in task for chunk in fetch))
    for fetch in task:
        began = time.perf_counter()
        columns = decode(fetch)
        seconds += time.perf_counter() - began
        folded.append(fold(columns, scope))
        if len(folded) > 1 and sum(len(p.runs.partition) for p in folded[1:]) >= len(folded[0].runs.partition):
            folded = [merge(concat(folded), scope)]
    merge(concat(folded), scope)
    return seconds

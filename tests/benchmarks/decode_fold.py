"""Bytes of the transaction log to runs on one core: decode and fold as the reader does it, no Kafka, no Spark."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from service.wire.columns import Chunk, decode
from spark_jobs.fold import Runs, concat, fold, merge
from tests.benchmarks.decode import FETCH, cut, make_log
from tests.benchmarks.figures import Figure, show

BAR = 1.5  # M records/s


def run(records: int = 1_000_000, ids: int = 200_000, repeats: int = 7) -> list[Figure]:
    """`ids` in one partition; each record is a batch of its own, as coordinators write them."""
    log = make_log(records, ids)
    pieces = cut(log, FETCH)
    rows = len(decode([Chunk(0, 0, 2**62, log)]))
    elapsed, cpu, decoding = [], [], []
    for _ in range(repeats):
        before, cpu_before = time.perf_counter(), time.process_time()
        decoding.append(_decode_and_fold(pieces))
        cpu.append(time.process_time() - cpu_before)
        elapsed.append(time.perf_counter() - before)

    def rate(seconds: float) -> float:
        return rows / seconds / 1e6

    figures = [
        Figure(
            "decode + fold on one core, median", rate(statistics.median(elapsed)), "M records/s", BAR, at_least=True
        ),
        Figure("  slowest run", rate(max(elapsed)), "M records/s"),
        Figure("  fastest run", rate(min(elapsed)), "M records/s"),
        Figure("  records per second of CPU, median", rate(statistics.median(cpu)), "M records/s"),
        Figure("  share of the time that decoding takes", statistics.median(decoding) / statistics.median(elapsed), ""),
    ]
    show(f"decode + fold: {rows:,} records of {ids:,} ids, {len(log) / rows:.0f} bytes each, {repeats} runs", figures)
    return figures


def _decode_and_fold(pieces: Sequence[bytes]) -> float:
    """Seconds of it that decoding took. Pieces are merged when they outweigh what is merged already (source.reader)."""
    seconds = 0.0
    folded: list[Runs] = []
    for piece in pieces:
        began = time.perf_counter()
        columns = decode([Chunk(0, 0, 2**62, piece)])
        seconds += time.perf_counter() - began
        folded.append(fold(columns))
        if len(folded) > 1 and sum(len(p.partition) for p in folded[1:]) >= len(folded[0].partition):
            folded = [merge(concat(folded))]
    merge(concat(folded))
    return seconds

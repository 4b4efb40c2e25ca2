"""The same log of a real broker through Kafka's console consumer, and through our source in Spark on two cores."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

from tests.benchmarks.figures import Figure, show
from tests.benchmarks.prepared_broker import BenchmarkBroker, prepared_broker
from tests.benchmarks.process_tree import ProcessTree, shown
from tests.helpers.paths import ROOT
from tests.integration.application import log_ends

BAR, TIMES_THE_CONSOLE = 0.6, 5.0
CONSOLE_RECORDS = 1_000_000

Batch = tuple[float, int, int, dict[str, float]]
"""As `spark_source` prints them."""


def run(records: int = 5_000_000, ids: int = 1_000_000) -> list[Figure]:
    """On a broker of its own."""
    with prepared_broker(records, ids) as broker:
        return measure(broker)


def measure(broker: BenchmarkBroker) -> list[Figure]:
    """Both readers on the same topic, one after the other; each one's start is left out."""
    batches = _through_spark(broker.bootstrap)
    if len(batches) < 2:
        raise ValueError("one batch took all of the log, and the first batch does not count: ask for more --records")
    (first_s, first, _, first_cpu), (last_s, _, _, last_cpu) = batches[0], batches[-1]
    total = sum(records for _, records, _, _ in batches)
    runs = sum(runs for _, _, runs, _ in batches)
    cpu = {kind: (spent - first_cpu.get(kind, 0.0)) / (total - first) * 1e6 for kind, spent in last_cpu.items()}
    ours = (total - first) / (last_s - first_s) / 1e6

    some = min(CONSOLE_RECORDS, sum(log_ends(broker.bootstrap).values()))
    start, all_of_it = broker.console_consumer(1), broker.console_consumer(some)
    console = (some - 1) / (all_of_it.elapsed_s - start.elapsed_s) / 1e6
    figures = [
        Figure("decode + fold through Spark on 2 cores", ours, "M records/s", BAR, at_least=True),
        Figure("  times Kafka's console consumer", ours / console, "x", TIMES_THE_CONSOLE, at_least=True),
        Figure("  console consumer with its formatter, on the same topic", console, "M records/s"),
        Figure("  CPU of ours for a million records", sum(cpu.values()), "s"),
        Figure("  CPU of the console consumer", (all_of_it.cpu_s - start.cpu_s) / (some - 1) * 1e6, "s"),
        Figure("  its start until the first record, left out", start.elapsed_s, "s"),
        Figure("  our start until the end of the first batch, left out", first_s, "s"),
        Figure("  all of the log, start included", total / last_s / 1e6, "M records/s"),
    ]
    show(f"Spark: {total:,} records to {runs:,} runs in {len(batches)} batches; console: {some:,} records", figures)
    print(f"CPU of ours for a million records: {shown(cpu, 's')}", flush=True)
    return figures


def _through_spark(bootstrap: str) -> Sequence[Batch]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.spark_source", bootstrap],
        cwd=ROOT,
        env=ProcessTree().environment,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        timeout=400,
    )
    batches: Sequence[Batch] = json.loads(done.stdout.splitlines()[-1])
    return batches

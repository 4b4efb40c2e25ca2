"""Compares Kafka's console consumer with our source in Spark, on two cores and the same log of a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

from tests.benchmarks.figures import Figure, show
from tests.benchmarks.prepared_broker import BenchmarkBroker, prepared_broker
from tests.benchmarks.process_tree import ProcessTree, shown
from tests.helpers.paths import ROOT
from tests.integration.application import log_ends

BAR, TIMES_THE_CONSOLE = 0.6, 4.0
CONSOLE_RECORDS = 1_000_000

TASKS = (1, 2, 4)
"""Numbers of tasks that read at the same time. The bar is for CORES tasks."""
CORES = 2


class Rate(NamedTuple):
    """The rate with `tasks` parallel tasks.

    - `first_s`, `all_s`: seconds from the start to the end of the first batch, and to the end of the last batch.
    - `a_second`: millions of records per second, without the first batch, which includes the start of Spark.
    - `cpu_s`: a mapping from kind of process to CPU seconds per million records, without the first batch.
    """

    tasks: int
    records: int
    runs: int
    batches: int
    first_s: float
    all_s: float
    a_second: float
    cpu_s: dict[str, float]

    @property
    def driver_s(self) -> float:
        """Returns the part of `cpu_s` that the driver and the JVM use. More executors do not reduce this part."""
        return self.cpu_s.get("driver", 0.0) + self.cpu_s.get("JVM", 0.0)


def run(records: int = 5_000_000, ids: int = 1_000_000) -> list[Figure]:
    with prepared_broker(records, ids) as broker:
        return measure(broker)


def measure(broker: BenchmarkBroker) -> list[Figure]:
    """Measures both readers on the same topic, one after the other. The compared rates exclude the start of each
    reader."""
    rates = {tasks: _through_spark(broker.bootstrap, tasks) for tasks in TASKS}
    ours = rates[CORES]
    some = min(CONSOLE_RECORDS, sum(log_ends(broker.bootstrap).values()))
    start, all_of_it = broker.console_consumer(1), broker.console_consumer(some)
    console = (some - 1) / (all_of_it.elapsed_s - start.elapsed_s) / 1e6
    figures = [
        Figure("decode + fold through Spark on 2 cores", ours.a_second, "M records/s", BAR, at_least=True),
        Figure("  times Kafka's console consumer", ours.a_second / console, "x", TIMES_THE_CONSOLE, at_least=True),
        Figure("  console consumer with its formatter, on the same topic", console, "M records/s"),
        Figure("  CPU of our source for a million records", sum(ours.cpu_s.values()), "s"),
        Figure("  CPU of the console consumer", (all_of_it.cpu_s - start.cpu_s) / (some - 1) * 1e6, "s"),
        Figure("  start of the console consumer until its first record, not counted", start.elapsed_s, "s"),
        Figure("  our start until the end of the first batch, not counted", ours.first_s, "s"),
        Figure("  all of the log, start included", ours.records / ours.all_s / 1e6, "M records/s"),
        *(figure for rate in rates.values() for figure in _of_tasks(rate, rates[TASKS[0]])),
    ]
    read = f"{ours.records:,} records to {ours.runs:,} runs in {ours.batches} batches"
    show(f"Spark: {read}; console: {some:,} records", figures)
    for rate in rates.values():
        print(f"CPU of {rate.tasks} tasks for a million records: {shown(rate.cpu_s, 's')}", flush=True)
    return figures


def _of_tasks(rate: Rate, one: Rate) -> Iterator[Figure]:
    yield Figure(f"{rate.tasks} tasks at once", rate.a_second, "M records/s")
    yield Figure("  times the rate of one task", rate.a_second / one.a_second, "x")
    yield Figure("  CPU of the tasks for a million records", sum(rate.cpu_s.values()) - rate.driver_s, "s")
    yield Figure("  CPU of the driver and its JVM", rate.driver_s, "s")


def _through_spark(bootstrap: str, tasks: int) -> Rate:
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.spark_source", bootstrap, str(tasks)],
        cwd=ROOT,
        env=ProcessTree().environment,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        timeout=400,
    )
    batches = json.loads(done.stdout.splitlines()[-1])
    if len(batches) < 2:
        raise ValueError("the first batch, which does not count, has the whole log; use a larger --records")
    (first_s, first, _, first_cpu), (last_s, _, _, last_cpu) = batches[0], batches[-1]
    total = sum(records for _, records, _, _ in batches)
    runs = sum(runs for _, _, runs, _ in batches)
    cpu_s = {kind: (spent - first_cpu.get(kind, 0.0)) / (total - first) * 1e6 for kind, spent in last_cpu.items()}
    return Rate(tasks, total, runs, len(batches), first_s, last_s, (total - first) / (last_s - first_s) / 1e6, cpu_s)

"""Measures the cost of each id, transition, partition and cluster. Fits a straight line to each cost, and extrapolates
the line to sizes that this machine cannot hold. docs/sizing.md has the conclusions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from tests.benchmarks.figures import Figure, show
from tests.benchmarks.first_answer import FirstAnswer, answer_first
from tests.benchmarks.loading import loading
from tests.benchmarks.log_load import PARTITIONS
from tests.benchmarks.look import HEAP_MB, OF_A_TOPIC, create
from tests.benchmarks.prepared_broker import bench_broker, prepared_broker
from tests.benchmarks.process_tree import cores_at_rest
from tests.benchmarks.stalls import wait_until_watched
from tests.benchmarks.watched import Watched, watching
from tests.integration.producers import open_producer

RATES = (2_500, 5_000, 10_000, 20_000)
"""Rates (transitions/s of IDS ids). At higher rates, the broker and the load leave too little of the two cores for the
application."""
IDS = 2_000
PARTITION_STEPS = (2_000, 5_000, 10_000)
FIRST_READS = (250_000, 500_000, 1_000_000)
RECORDS_AN_ID = 5
MEASURED_S, SETTLE_S = 30.0, 10.0
WORTH_TELLING = 0.03
"""A kind of process is reported only if it uses at least this number of cores at the largest measured size."""
TIMEOUT_S = 120

TRANSITIONS, WATCHED, STORED, CLUSTERS = 200_000, 1_000_000, 10_000_000, 100
"""The sizes to which the costs are extrapolated."""


class Line(NamedTuple):
    """A line y = `at_zero` + `slope` x, fitted by least squares. `errors`: the covariance matrix of (`at_zero`,
    `slope`)."""

    at_zero: float
    slope: float
    errors: tuple[tuple[float, float], tuple[float, float]]

    @property
    def slope_error(self) -> float:
        return math.sqrt(max(self.errors[1][1], 0.0))

    def at(self, x: float) -> tuple[float, float]:
        """Returns y at `x`, and the standard error of y."""
        (a, both), (_, b) = self.errors
        return self.at_zero + self.slope * x, math.sqrt(max(a + 2 * x * both + x * x * b, 0.0))


def fit(points: Iterable[tuple[float, float]]) -> Line:
    """Returns the line that fits the points (x, y). Needs at least three points."""
    x, y = np.array(sorted(points)).T
    design = np.stack((np.ones_like(x), x), axis=1)
    (at_zero, slope), *_ = np.linalg.lstsq(design, y, rcond=None)
    left = y - design @ (at_zero, slope)
    (a, both), (_, b) = (np.linalg.inv(design.T @ design) * (left @ left) / (len(x) - 2)).tolist()
    return Line(float(at_zero), float(slope), ((a, both), (both, b)))


class Idle(NamedTuple):
    """CPU and memory of the application at rest."""

    cores: dict[str, float]
    memory_mb: float


Costs = Sequence[tuple[float, Mapping[str, float]]]
"""Measured costs: pairs of a size, and a mapping from kind of process to cores."""


def run() -> list[Figure]:
    """Runs the benchmark, which takes about ten minutes."""
    idle, by_rate = _transitions()
    by_partitions = _partitions()
    reads = _first_reads()
    figures = [
        *_per("transitions/s", by_rate, 1_000, TRANSITIONS),
        *_per("partitions", by_partitions, 1_000, WATCHED),
        *_of_ids(reads),
        Figure(f"memory of {CLUSTERS} clusters at rest", idle.memory_mb * CLUSTERS / 1_000, "GB"),
        Figure(f"CPU of {CLUSTERS} clusters at rest", sum(idle.cores.values()) * CLUSTERS, "cores"),
    ]
    show("sizing: slopes with one standard error, and the extrapolated costs", figures)
    return figures


def _transitions() -> tuple[Idle, Costs]:
    with _application({"transaction.state.log.num.partitions": str(PARTITIONS)}) as (bootstrap, watched):
        idle = Idle(_cores(watched), sum(watched.tree.pss_mb().values()))
        costs = []  # the run at rest is no point of the line: the first batches per second cost more than their content
        for rate in RATES:
            with loading("tests.benchmarks.log_load", bootstrap, rate, IDS) as load:
                cores = _cores(watched)
            records, *_, seconds = map(float, load.said)
            costs.append((records / seconds, cores))
    return idle, costs


def _partitions() -> Costs:
    with _application({}) as (bootstrap, watched):
        costs, there = [(0.0, _cores(watched))], 0
        for partitions in PARTITION_STEPS:
            create(bootstrap, (partitions - there) // OF_A_TOPIC, there // OF_A_TOPIC)
            there = partitions
            wait_until_watched(watched, partitions)
            costs.append((float(partitions), _cores(watched)))
    return costs


def _first_reads() -> dict[int, FirstAnswer]:
    reads = {}
    for ids in FIRST_READS:
        with prepared_broker(ids * RECORDS_AN_ID, ids) as broker:
            reads[ids] = answer_first(broker, ids, None)
    return reads


@contextmanager
def _application(properties: Mapping[str, str]) -> Iterator[tuple[str, Watched]]:
    with bench_broker({"log.cleaner.enable": "false", **properties}, HEAP_MB) as broker:
        open_producer(broker.bootstrap, "creates-the-log")
        with watching(broker.bootstrap) as watched:
            watched.wait_until_read(1, TIMEOUT_S)
            yield broker.bootstrap, watched


def _cores(watched: Watched) -> dict[str, float]:
    return cores_at_rest(watched.tree, SETTLE_S, MEASURED_S)


def _per(what: str, costs: Costs, of: int, carried_to: int) -> Iterator[Figure]:
    """Yields two costs, each with its standard error: the cost of as many units as `of` says, and the cost
    extrapolated to `carried_to` units. Yields both for all processes together, and for each kind of process that
    WORTH_TELLING admits."""
    lines = {"all processes": fit((size, sum(cores.values())) for size, cores in costs)}
    for kind, cores_at_most in costs[-1][1].items():
        if cores_at_most >= WORTH_TELLING:
            lines[kind] = fit((size, cores.get(kind, 0.0)) for size, cores in costs)
    for kind, line in lines.items():
        yield Figure(f"{of:,} {what}, {kind}", line.slope * of, "cores")
        yield Figure("  its error", line.slope_error * of, "cores")
        cores, error = line.at(carried_to)
        yield Figure(f"  {carried_to:,} {what}", cores, "cores")
        yield Figure("  its error", error, "cores")


def _of_ids(reads: Mapping[int, FirstAnswer]) -> Iterator[Figure]:
    for name, unit, of in (
        ("first answer", "s", [(ids, read.answered_s) for ids, read in reads.items()]),
        ("CPU of the first read", "s", [(ids, sum(read.cpu_s.values())) for ids, read in reads.items()]),
        ("  of the driver", "s", [(ids, read.cpu_s["driver"]) for ids, read in reads.items()]),
        ("peak memory of the first read", "MB", [(ids, read.peak_mb) for ids, read in reads.items()]),
        ("size of the store", "MiB", [(ids, read.stored_mib) for ids, read in reads.items()]),
    ):
        line = fit(of)
        yield Figure(f"{name}, for 1,000,000 ids", line.slope * 1e6, unit)
        yield Figure("  its error", line.slope_error * 1e6, unit)
        value, error = line.at(STORED)
        yield Figure(f"  {STORED:,} ids", value, unit)
        yield Figure("  its error", error, unit)

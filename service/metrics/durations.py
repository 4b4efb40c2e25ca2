"""Histograms that the store has counted: for how long transactions were open; how long markers, detection and batches
took.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Final

from service.domain.partitions.facts import SOURCE as PARTITIONS
from service.domain.transaction_log.outcomes import BATCH, BOUNDS_MS, DETECTION, MARKER, OPEN
from service.domain.transaction_log.states import SOURCE as TRANSACTION_LOG
from service.metrics import catalogue
from service.metrics.series import Distribution, Series
from service.store.queries.metrics import ClusterFacts
from service.store.rows.counters import CONFIRMED, SUM

OUTCOMES: Final = ("commit", "abort")


def durations(facts: ClusterFacts) -> Iterator[Series]:
    """Yields the histograms, in seconds. The markers of commits and aborts share one: they are the same work."""
    for outcome in OUTCOMES:
        yield Series(catalogue.DURATION, (outcome,), _distribution(facts.counters, OPEN, (outcome,)))
    yield Series(catalogue.MARKER_DURATION, (), _distribution(facts.counters, MARKER, OUTCOMES))
    yield Series(catalogue.DETECTION, (), _distribution(facts.counters, DETECTION, (CONFIRMED,)))
    for source in sorted({TRANSACTION_LOG, PARTITIONS, *facts.statuses}):
        yield Series(catalogue.BATCH_DURATION, (source,), _distribution(facts.counters, BATCH, (source,)))


def _distribution(counters: Mapping[tuple[str, str], int], kind: str, outcomes: tuple[str, ...]) -> Distribution:
    """Returns a histogram from the counters of `service.store.writers.counters`, summed over the outcomes."""

    def total(label: str) -> int:
        return sum(counters.get((f"{kind}_ms_{outcome}", label), 0) for outcome in outcomes)

    bounds = [*(str(ms / 1000) for ms in BOUNDS_MS[kind]), "+Inf"]
    counts = accumulate(total(str(index)) for index in range(len(bounds)))
    return Distribution(tuple(zip(bounds, map(float, counts), strict=True)), total(SUM) / 1000)

"""The series of a page of metrics, the cap on their number, and histograms that the store has counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Final, NamedTuple

from service.domain.source_state import SourceName
from service.domain.transaction_log.outcomes import BATCH, BOUNDS_MS, DETECTION, MARKER, OPEN
from service.metrics import catalogue
from service.metrics.catalogue import SERIES_DROPPED, Metric
from service.store.schema.history import CONFIRMED, SUM
from service.views.cluster.metric_facts import ClusterFacts

OUTCOMES: Final = ("commit", "abort")


class Distribution(NamedTuple):
    """The value of a histogram. `buckets`: (upper bound as Prometheus writes it, number of values up to it), the last
    one "+Inf".
    """

    buckets: tuple[tuple[str, float], ...]
    sum: float


class Series(NamedTuple):
    """One value of a metric. `labels` are the values of `metric.labels`, in that order; times are in seconds."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | Distribution

    @property
    def size(self) -> int:
        """Returns how many series Prometheus makes of this value: a histogram has one for each bucket, the sum and the
        count.
        """
        return len(self.value.buckets) + 2 if isinstance(self.value, Distribution) else 1


def bounded(of_clusters: Sequence[tuple[str, Iterable[Series]]], limit: int) -> list[tuple[str, Series]]:
    """Returns (cluster, series) of all clusters, at most `limit`, each cluster with its SERIES_DROPPED.

    Metrics with one series for each cluster are always kept. Of the rest (`many`) every cluster gets a fair share, and
    keeps the series that come first: `families` puts the worst first. `families` also counts series that it did not
    even read, in a SERIES_DROPPED of its own.
    """
    kept: list[tuple[str, Series]] = []
    rest: list[tuple[str, list[Series], int]] = []
    for cluster, all_series in of_clusters:
        some: list[Series] = []
        unread = 0
        for one in all_series:
            if one.metric.many:
                some.append(one)
            elif one.metric is SERIES_DROPPED:
                assert not isinstance(one.value, Distribution)
                unread += int(one.value)
            else:
                kept.append((cluster, one))
        rest.append((cluster, _interleaved(some), unread))
    room = limit - sum(one.size for _, one in kept) - len(rest)
    rest.sort(key=lambda of_cluster: len(of_cluster[1]))
    for index, (cluster, some, unread) in enumerate(rest):
        share = max(room // (len(rest) - index), 0)
        kept += [(cluster, one) for one in some[:share]]
        kept.append((cluster, Series(SERIES_DROPPED, (), max(len(some) - share, 0) + unread)))
        room -= min(share, len(some))
    return kept


def _interleaved(some: Iterable[Series]) -> list[Series]:
    """Returns the worst of every metric, then the second of every metric, and so on."""
    by_metric: dict[str, list[Series]] = {}
    for one in some:
        by_metric.setdefault(one.metric.name, []).append(one)
    longest = max(map(len, by_metric.values()), default=0)
    return list(
        chain.from_iterable([of[rank] for of in by_metric.values() if rank < len(of)] for rank in range(longest))
    )


def durations(facts: ClusterFacts) -> Iterator[Series]:
    """Yields the histograms, in seconds. The markers of commits and aborts share one: they are the same work."""
    for outcome in OUTCOMES:
        yield Series(catalogue.DURATION, (outcome,), _distribution(facts.counters, OPEN, (outcome,)))
    yield Series(catalogue.MARKER_DURATION, (), _distribution(facts.counters, MARKER, OUTCOMES))
    yield Series(catalogue.DETECTION, (), _distribution(facts.counters, DETECTION, (CONFIRMED,)))
    for source in sorted({SourceName.TRANSACTION_LOG, SourceName.PARTITIONS, *facts.statuses}):
        yield Series(catalogue.BATCH_DURATION, (source,), _distribution(facts.counters, BATCH, (source,)))


def _distribution(counters: Mapping[tuple[str, str], int], kind: str, outcomes: tuple[str, ...]) -> Distribution:
    """Returns a histogram from the counters of `service.store.writers.history`, summed over the outcomes."""

    def total(label: str) -> int:
        return sum(counters.get((f"{kind}_ms_{outcome}", label), 0) for outcome in outcomes)

    bounds = [*(str(ms / 1000) for ms in BOUNDS_MS[kind]), "+Inf"]
    counts = accumulate(total(str(index)) for index in range(len(bounds)))
    return Distribution(tuple(zip(bounds, map(float, counts), strict=True)), total(SUM) / 1000)

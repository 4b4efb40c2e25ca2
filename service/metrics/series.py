"""A value of a metric, and the cap on how many of them a page may have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from service.metrics.catalogue import SERIES_DROPPED, Metric


class Distribution(NamedTuple):
    """The value of a histogram: (upper bound as Prometheus writes it, how many up to it), the last one "+Inf"."""

    buckets: tuple[tuple[str, float], ...]
    sum: float


class Series(NamedTuple):
    """`labels` are the values of `metric.labels`, in that order; times are in seconds."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | Distribution

    @property
    def size(self) -> int:
        """How many series Prometheus makes of it: a histogram has one for each bucket, the sum and the count."""
        return len(self.value.buckets) + 2 if isinstance(self.value, Distribution) else 1


def bounded(of_clusters: Sequence[tuple[str, Iterable[Series]]], limit: int) -> list[tuple[str, Series]]:
    """(cluster, series) of all clusters, at most `limit`, each cluster with its SERIES_DROPPED.

    What is one for each cluster is always there. Of the rest (`many`) every cluster gets a fair share, and in it what
    comes first: producers put the worst first. What they did not even read they tell as a SERIES_DROPPED of their own.
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
    """The worst of every metric, then the second of every metric, and so on."""
    by_metric: dict[str, list[Series]] = {}
    for one in some:
        by_metric.setdefault(one.metric.name, []).append(one)
    longest = max(map(len, by_metric.values()), default=0)
    return list(
        chain.from_iterable([of[rank] for of in by_metric.values() if rank < len(of)] for rank in range(longest))
    )

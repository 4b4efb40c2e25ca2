"""Collects the metrics of the store for Prometheus: one custom collector, which reads the store anew for each page."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.metrics.catalogue import OF_CLUSTERS, RENDER_SECONDS, UP, Metric
from service.metrics.durations import durations
from service.metrics.families import clusters, coordinators, findings, groups, partitions, pipeline, transactions
from service.metrics.series import Distribution, Series, bounded
from service.store.errors import StoreError
from service.store.queries.metrics import ClusterFacts, all_facts

log = logging.getLogger(__name__)

SERIES_LIMIT: Final = 2_000

_Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


class StoreCollector(Collector):
    """Reads the store and makes the families. `now_ms` is called once a collection. A store that does not answer leaves
    the families empty and `UP` at 0.
    """

    def __init__(self, engine: Engine, now_ms: Callable[[], int], series_limit: int = SERIES_LIMIT) -> None:
        self._engine, self._now_ms, self._limit = engine, now_ms, series_limit

    def describe(self) -> Iterable[Family]:
        """Returns nothing: registering must not read the store."""
        return []

    def collect(self) -> Iterator[Family]:
        """Yields every family of the catalogue that comes from the store, also those without series."""
        began = time.perf_counter()
        families = {metric.name: _family(metric, "cluster", *metric.labels) for metric in OF_CLUSTERS}
        facts, is_up = self._read()
        now_ms = self._now_ms()
        for cluster, one in bounded([(one.name, _all(one, now_ms)) for one in facts], self._limit):
            _add(families[one.metric.name], (cluster, *one.labels), one.value)
        yield from families.values()
        yield _single(UP, is_up)
        yield _single(RENDER_SECONDS, time.perf_counter() - began)

    def _read(self) -> tuple[list[ClusterFacts], bool]:
        try:
            with self._engine.connect() as connection:
                return all_facts(connection), True
        except (StoreError, SQLAlchemyError) as error:
            log.debug("no metrics from the store: %s", error)
            return [], False


def _all(facts: ClusterFacts, now_ms: int) -> Iterator[Series]:
    yield from transactions(facts)
    yield from durations(facts)
    yield from coordinators(facts)
    yield from partitions(facts, now_ms)
    yield from groups(facts)
    yield from pipeline(facts, now_ms)
    yield from findings(facts)
    yield from clusters(facts)


def _family(metric: Metric, *labels: str) -> _Family:
    if metric.kind == "histogram":
        return HistogramMetricFamily(metric.name, metric.help, labels=labels)
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    return kind(metric.name, metric.help, labels=labels)


def _add(family: _Family, labels: Sequence[str], value: float | Distribution) -> None:
    if isinstance(family, HistogramMetricFamily):
        assert isinstance(value, Distribution)
        family.add_metric(labels, value.buckets, value.sum)
    else:
        assert not isinstance(value, Distribution)
        family.add_metric(labels, value)


def _single(metric: Metric, value: float) -> Family:
    family = _family(metric)
    _add(family, (), value)
    return family

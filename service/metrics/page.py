"""The metrics of a service: those that a collector reads from the store, and those of the process. The page is made at
most once a second for each format, whatever the number of scrapers."""

from __future__ import annotations

import gzip
import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE_OPENMETRICS
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.metrics.catalogue import OF_CLUSTERS, OF_RECEIVERS, RENDER_SECONDS, UP, Metric
from service.metrics.exports import ExportMetrics
from service.metrics.families import (
    Distribution,
    Series,
    applications,
    bounded,
    canary,
    clusters,
    coordinators,
    durations,
    findings,
    groups,
    partitions,
    pipeline,
    receivers,
    transactions,
)
from service.metrics.requests import RequestMetrics
from service.store.errors import StoreError
from service.store.escaped_text import label_text
from service.store.receivers import ReceiverState, read_receivers
from service.store.schema_check import SchemaCheck
from service.views.cluster.metric_facts import ClusterFacts, all_facts

log = logging.getLogger(__name__)

SERIES_LIMIT: Final = 2_000

_Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily

KEPT_MS: Final = 1_000
"""Time (ms) for which a page is served again before the store is read for the next one."""

_GZIP_LEVEL = 1  # a tenth more bytes than level 9, a tenth of its time


class Collected(NamedTuple):
    """The families of a store at one moment. `since_ms`: a mapping from the cluster's label to the time at which its
    counters began; a cluster is absent if counting has not begun."""

    families: Sequence[Family]
    since_ms: Mapping[str, int]


class StoreCollector(Collector):
    """Reads the store and makes the families. `now_ms` is called once for each collection. If the store does not
    answer, or this version cannot read its schema, the families are empty and `UP` is 0.
    """

    def __init__(self, engine: Engine, now_ms: Callable[[], int]) -> None:
        self._engine, self._now_ms = engine, now_ms
        self._schema = SchemaCheck(engine)

    def describe(self) -> Iterable[Family]:
        """Returns nothing: registering must not read the store."""
        return []

    def collect(self) -> Iterable[Family]:
        return self.collected().families

    def collected(self) -> Collected:
        """Returns every family of the catalogue that comes from the store, also those without series."""
        began = time.perf_counter()
        families = {metric.name: _family(metric, "cluster") for metric in OF_CLUSTERS}
        of_receivers = {metric.name: _family(metric) for metric in OF_RECEIVERS}
        now_ms = self._now_ms()
        facts, states, is_up = self._read(now_ms)
        for cluster, one in bounded([(fact.name, _all(fact, now_ms)) for fact in facts], SERIES_LIMIT):
            _add(families[one.metric.name], (cluster, *one.labels), one.value)
        for series in receivers(states):
            _add(of_receivers[series.metric.name], series.labels, series.value)
        took_s = time.perf_counter() - began
        return Collected(
            (
                *families.values(),
                *of_receivers.values(),
                GaugeMetricFamily(UP.name, UP.help, is_up),
                GaugeMetricFamily(RENDER_SECONDS.name, RENDER_SECONDS.help, took_s),
            ),
            {label_text(fact.name): fact.counted_since_ms for fact in facts if fact.counted_since_ms is not None},
        )

    def _read(self, now_ms: int) -> tuple[list[ClusterFacts], list[ReceiverState], bool]:
        try:
            with self._engine.connect() as connection:
                self._schema.check(connection)
                return all_facts(connection, now_ms), read_receivers(connection), True
        except (StoreError, SQLAlchemyError) as error:
            log.debug("no metrics from the store: %s", error)
            return [], [], False


def _all(facts: ClusterFacts, now_ms: int) -> Iterator[Series]:
    yield from transactions(facts)
    yield from applications(facts)
    yield from durations(facts)
    yield from coordinators(facts)
    yield from canary(facts)
    yield from partitions(facts, now_ms)
    yield from groups(facts)
    yield from pipeline(facts, now_ms)
    yield from findings(facts)
    yield from clusters(facts)


def _family(metric: Metric, *first: str) -> _Family:
    labels = (*first, *metric.labels)
    if metric.kind == "histogram":
        return HistogramMetricFamily(metric.name, metric.help, labels=labels)
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    return kind(metric.name, metric.help, labels=labels)


def _add(family: _Family, texts: Sequence[str], value: float | Distribution) -> None:
    labels = [label_text(text) for text in texts]
    if isinstance(family, HistogramMetricFamily):
        assert isinstance(value, Distribution)
        family.add_metric(labels, value.buckets, value.sum)
    else:
        assert not isinstance(value, Distribution)
        family.add_metric(labels, value)


class _Page(NamedTuple):
    made_at_ms: int
    plain: bytes
    zipped: bytes


class Metrics:
    """The metrics of this process. Safe to call from many threads. The HTTP middleware counts into `requests`, the
    export by OTLP into `exports`."""

    def __init__(self, engine: Engine) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._now_ms = 0
        self._stored = StoreCollector(engine, lambda: self._now_ms)
        self._own = CollectorRegistry()
        ProcessCollector(registry=self._own)
        self.requests = RequestMetrics(self._own)
        self.exports = ExportMetrics(self._own)
        self._registry = CollectorRegistry()
        self._registry.register(self._stored)
        self._registry.register(self._own)
        self._making = threading.Lock()
        self._pages: dict[str, _Page] = {}

    def render(self, accept: str, accept_encoding: str, now_ms: int) -> tuple[bytes, dict[str, str]]:
        """Returns (body, headers) for the request headers Accept and Accept-Encoding: OpenMetrics 1.0 or text 0.0.4.

        Requests that arrive while the page is being made wait for this page. So a slow store is read once, not once for
        each scraper.
        """
        content_type = (
            CONTENT_TYPE_OPENMETRICS if "application/openmetrics-text" in accept else CONTENT_TYPE_PLAIN_0_0_4
        )
        with self._making:
            page = self._pages.get(content_type)
            if page is None or not 0 <= now_ms - page.made_at_ms < KEPT_MS:
                page = self._pages[content_type] = self._make(content_type, now_ms)
        headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
        if _takes_gzip(accept_encoding):
            return page.zipped, headers | {"Content-Encoding": "gzip"}
        return page.plain, headers

    def stored(self, now_ms: int) -> Collected:
        """Reads and returns the metrics of the store. Except for UP and RENDER_SECONDS, they are the same for every
        service on the store."""
        with self._making:
            self._now_ms = now_ms
            return self._stored.collected()

    def own(self) -> Sequence[Family]:
        """Returns the metrics of this process."""
        return list(self._own.collect())

    def _make(self, content_type: str, now_ms: int) -> _Page:
        self._now_ms = now_ms
        generate = generate_openmetrics if content_type == CONTENT_TYPE_OPENMETRICS else generate_latest
        plain: bytes = generate(self._registry)
        return _Page(now_ms, plain, gzip.compress(plain, _GZIP_LEVEL, mtime=0))


def _takes_gzip(accept_encoding: str) -> bool:
    """Returns whether the client accepts gzip (RFC 9110 12.5.3). `*` stands for codings that are not listed; a quality
    of 0 means no."""
    accepted: dict[str, bool] = {}
    for item in accept_encoding.lower().split(","):
        coding, _, parameters = item.partition(";")
        accepted[coding.strip()] = not re.fullmatch(r"\s*q=0(\.0*)?\s*", parameters)
    return accepted.get("gzip", accepted.get("*", False))

"""Turns Prometheus families into metrics of OTLP: the same names, labels and values as on the page of metrics.

A counter becomes a monotonic cumulative sum, a histogram a cumulative explicit-bucket histogram, everything else a
gauge. Names keep the suffixes of Prometheus (`_total`, `_seconds`); a Prometheus server that receives OTLP does not add
them twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

UNITS: Final = {"_seconds": "s", "_bytes": "By", "_ratio": "1"}
"""Maps the end of a metric's name (without `_total`) to the metric's unit. Metrics with other names count things, and
have no unit."""

UNKNOWN_START_NS: Final = 0
"""The start of a counter whose real start is not known. The receiver then compares each value with the previous one."""

_CUMULATIVE: Final = AggregationTemporality.CUMULATIVE

Since = Callable[[Mapping[str, str]], int | None]
"""A function that takes the labels of a counter, and returns the time (ms) at which the counter began; None if that
time is not known."""


def metrics_data(
    families: Iterable[Family], resource: Resource, scope: InstrumentationScope, since_ms: Since, now_ms: int
) -> MetricsData:
    """Returns the families as one message. Families without a sample are left out."""
    metrics = [metric for family in families for metric in _metrics_of(family, since_ms, now_ms)]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(scope, metrics, "")], "")])


def unit_of(name: str) -> str:
    name = name.removesuffix("_total")
    return next((unit for end, unit in UNITS.items() if name.endswith(end)), "")


def points_of(data: MetricsData) -> int:
    """Returns the number of data points."""
    return sum(
        len(metric.data.data_points)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    )


def _metrics_of(family: Family, since_ms: Since, now_ms: int) -> Iterator[Metric]:
    """Yields one metric for a histogram. For any other family, yields one metric for each name among its samples."""
    by_name: dict[str, list[Sample]] = {}
    for sample in family.samples:
        by_name.setdefault(sample.name, []).append(sample)
    if family.type == "histogram":
        if by_name:
            points = list(_histogram_points(by_name, family.name, since_ms, now_ms))
            yield Metric(family.name, family.documentation, unit_of(family.name), Histogram(points, _CUMULATIVE))
        return
    is_counter = family.type == "counter"
    for name, samples in by_name.items():
        numbers = [
            # a float even for whole numbers: the type of a series must not change with its value
            NumberDataPoint(
                dict(sample.labels), _start_ns(sample, since_ms) if is_counter else 0, _ns(now_ms), float(sample.value)
            )
            for sample in samples
        ]
        data = Sum(numbers, _CUMULATIVE, is_monotonic=True) if is_counter else Gauge(numbers)
        yield Metric(name, family.documentation, unit_of(name), data)


def _histogram_points(
    by_name: Mapping[str, Sequence[Sample]], name: str, since_ms: Since, now_ms: int
) -> Iterator[HistogramDataPoint]:
    """Yields a point for each set of labels. In Prometheus, the count of a bucket includes the counts of all lower
    buckets. In OTLP, the count of a bucket does not include them."""
    sums = {_key(one.labels): one.value for one in by_name[f"{name}_sum"]}
    buckets: dict[frozenset[tuple[str, str]], list[Sample]] = {}
    for sample in by_name[f"{name}_bucket"]:
        buckets.setdefault(_key(sample.labels), []).append(sample)
    for key, of_one in buckets.items():
        up_to = [0, *(int(one.value) for one in of_one)]
        yield HistogramDataPoint(
            attributes=dict(key),
            start_time_unix_nano=_start_ns(of_one[0], since_ms),
            time_unix_nano=_ns(now_ms),
            count=up_to[-1],
            sum=sums[key],
            bucket_counts=[after - before for before, after in pairwise(up_to)],
            explicit_bounds=[float(one.labels["le"]) for one in of_one[:-1]],
            min=None,  # type: ignore[arg-type]  # not known, and optional in OTLP
            max=None,  # type: ignore[arg-type]
        )


def _key(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset((name, value) for name, value in labels.items() if name != "le")


def _start_ns(sample: Sample, since_ms: Since) -> int:
    began_ms = since_ms(sample.labels)
    return UNKNOWN_START_NS if began_ms is None else _ns(began_ms)


def _ns(ms: int) -> int:
    return ms * 1_000_000

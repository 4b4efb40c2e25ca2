"""Counts the requests of this process to the OpenTelemetry endpoint."""

from __future__ import annotations

from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter

from service.metrics.catalogue import OTLP_DROPPED, OTLP_REQUESTS


class Signal(StrEnum):
    """The kinds of data that requests carry."""

    METRICS = "metrics"
    TRACES = "traces"


class DropReason(StrEnum):
    """The reasons why the endpoint will never get some data points, traces or spans."""

    REFUSED = "refused"
    CAP = "cap"
    DELETED = "deleted"
    NO_TIME = "no_time"


class ExportMetrics:
    """Counters of one service process; all are 0 when the process starts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(OTLP_REQUESTS.name, OTLP_REQUESTS.help, OTLP_REQUESTS.labels, registry=registry)
        self._dropped = Counter(OTLP_DROPPED.name, OTLP_DROPPED.help, OTLP_DROPPED.labels, registry=registry)

    def expect(self, signal: Signal) -> None:
        """Adds the series of the signal at 0, so that `increase()` sees the first event."""
        for outcome in ("taken", "failed"):
            self._requests.labels(signal, outcome)
        for reason in DropReason:
            self._dropped.labels(signal, reason)

    def count(self, signal: Signal, *, taken: bool) -> None:
        """Counts a request to the endpoint. `taken`: True if the endpoint accepted the request."""
        self._requests.labels(signal, "taken" if taken else "failed").inc()

    def drop(self, signal: Signal, reason: DropReason, number: int = 1) -> None:
        """Counts data points, traces or spans that the endpoint will never get."""
        self._dropped.labels(signal, reason).inc(number)

"""Counters of answered requests, and their durations: counted in this process, unlike the metrics of the store."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from service.metrics.catalogue import HTTP_REQUESTS, HTTP_SECONDS

UNROUTED: Final = "(none)"
"""The label of a request that no route matched: a path that the caller invented must not become a label."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class RequestMetrics:
    """Counters of one service process; they begin at 0 with it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(HTTP_REQUESTS.name, HTTP_REQUESTS.help, HTTP_REQUESTS.labels, registry=registry)
        self._seconds = Histogram(
            HTTP_SECONDS.name, HTTP_SECONDS.help, HTTP_SECONDS.labels, buckets=_BUCKETS, registry=registry
        )

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts a request. `route` is a template (`/clusters/{cluster}`), of which there are few."""
        self._requests.labels(method if method in _METHODS else "other", route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

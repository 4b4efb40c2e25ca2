"""Counts answered requests and their durations in this process; most other metrics come from the store."""

from __future__ import annotations

import re
import time
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.metrics.catalogue import HTTP_REQUESTS, HTTP_SECONDS

UNROUTED: Final = "(none)"
"""The label of a request that no route matched: a path that the caller invented must not become a label."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_CONVERTOR: Final = re.compile(r":\w+}")
"""Matches the convertor in `{name:path}`, which is not part of the name."""


class RequestMetrics:
    """Counters of one service process; all are 0 when the process starts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(HTTP_REQUESTS.name, HTTP_REQUESTS.help, HTTP_REQUESTS.labels, registry=registry)
        self._seconds = Histogram(
            HTTP_SECONDS.name, HTTP_SECONDS.help, HTTP_SECONDS.labels, buckets=_BUCKETS, registry=registry
        )

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts a request. `route` is a template (`/clusters/{cluster}`), of which there are few."""
        self._requests.labels(method if method in _METHODS else "other", route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)


class HttpMetrics:
    """Counts and measures requests. To be added with `app.add_middleware(HttpMetrics, requests=metrics.requests)`."""

    def __init__(self, app: ASGIApp, requests: RequestMetrics) -> None:
        self._app, self._requests = app, requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Counts the request. An exception that reaches this middleware before the answer has begun counts as 500,
        because the server answers it with 500.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500
        began = time.perf_counter()

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            self._requests.count(scope["method"], route_of(scope), status, time.perf_counter() - began)


def route_of(scope: Scope) -> str:
    """Returns the template of the route in the scope, with the prefix of its router in front; UNROUTED if there is no
    route. Without the prefix, a REST route and a page could have the same path."""
    declared = getattr(scope.get("route"), "path", None)
    if declared is None:
        return UNROUTED
    template = _CONVERTOR.sub("}", declared)
    filled = template.format(**scope["path_params"])
    prefix = scope["path"].removesuffix(filled) if scope["path"].endswith(filled) else ""
    return f"{prefix}{template}"

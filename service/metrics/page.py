"""The page of metrics, made at most once a second, however many scrapers ask and however often."""

from __future__ import annotations

import gzip
import re
import threading
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE_OPENMETRICS
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from sqlalchemy import Engine

from service.metrics.collector import SERIES_LIMIT, StoreCollector
from service.metrics.requests import RequestMetrics

KEPT_MS: Final = 1_000
"""Time (ms) for which a page is served again before the store is read for the next one."""

_GZIP_LEVEL = 1  # a tenth more bytes than level 9, a tenth of its time


class _Page(NamedTuple):
    made_at_ms: int
    plain: bytes
    zipped: bytes


class Metrics:
    """The metrics of this process. Safe to call from many threads. The HTTP middleware counts into `requests`."""

    def __init__(self, engine: Engine, series_limit: int = SERIES_LIMIT) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._now_ms = 0
        self._registry = CollectorRegistry()
        self._registry.register(StoreCollector(engine, lambda: self._now_ms, series_limit))
        ProcessCollector(registry=self._registry)
        self.requests = RequestMetrics(self._registry)
        self._making = threading.Lock()
        self._pages: dict[str, _Page] = {}

    def render(self, accept: str, accept_encoding: str, now_ms: int) -> tuple[bytes, dict[str, str]]:
        """Returns (body, headers) for the request headers Accept and Accept-Encoding: OpenMetrics 1.0 or text 0.0.4.

        While a page is made, all other requests wait for it: a slow store is read once, and not once a scraper.
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

    def _make(self, content_type: str, now_ms: int) -> _Page:
        self._now_ms = now_ms
        generate = generate_openmetrics if content_type == CONTENT_TYPE_OPENMETRICS else generate_latest
        plain: bytes = generate(self._registry)
        return _Page(now_ms, plain, gzip.compress(plain, _GZIP_LEVEL, mtime=0))


def _takes_gzip(accept_encoding: str) -> bool:
    """Returns whether the client accepts gzip (RFC 9110 12.5.3); a quality of 0 means no."""
    for item in accept_encoding.lower().split(","):
        coding, _, parameters = item.partition(";")
        if coding.strip() in ("gzip", "*"):
            return not re.fullmatch(r"\s*q=0(\.0*)?\s*", parameters)
    return False

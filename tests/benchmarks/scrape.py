"""Measures how long a scrape of /metrics takes if the store has the maximum number of series of each kind.

Command: `python -m tests.benchmarks scrape`. The service renders the page at most once a second; here every scrape
renders it again.
"""

from __future__ import annotations

import statistics
import time

from service.metrics.page import KEPT_MS
from service.store.engine import open_engine
from tests.benchmarks.figures import Figure, show
from tests.benchmarks.large_store import fill, settle
from tests.benchmarks.reads import METRICS, SERIES_BAR
from tests.benchmarks.served import Client, serving
from tests.benchmarks.stores import STORES, database
from tests.helpers.many_rows import stalled

IDS, LAGGING = 100_000, 10_000
SCRAPES = 30
BAR_MS = 250.0


def run(stores: tuple[str, ...] = STORES, ids: int = IDS) -> list[Figure]:
    figures = [figure for store in stores for figure in _on(store, ids)]
    show(f"scrape: {ids:,} ids, {LAGGING:,} lagging partitions, {SCRAPES} scrapes", figures)
    return figures


def _on(kind: str, ids: int) -> list[Figure]:
    with database(kind) as url:
        fill(url, ids)
        engine = open_engine(url)
        stalled(engine, LAGGING)
        settle(engine)
        engine.dispose()
        with serving(url) as client:
            took_ms, page = _scrape(client)
    series = [line for line in page.splitlines() if not line.startswith(b"#")]
    of_clusters = sum(b'cluster="' in line for line in series)
    return [
        Figure(f"{kind}: a scrape, median", statistics.median(took_ms), "ms"),
        Figure(f"{kind}: a scrape, the longest", max(took_ms), "ms", BAR_MS),
        Figure(f"{kind}: series of the cluster", of_clusters, "series", SERIES_BAR),
        Figure(f"{kind}: series, including those of the service itself", len(series), "series"),
        Figure(f"{kind}: page", len(page) / 1000, "kB"),
    ]


def _scrape(client: Client) -> tuple[list[float], bytes]:
    took_ms: list[float] = []
    page = client.get(METRICS)
    for _ in range(SCRAPES):
        time.sleep(KEPT_MS / 1000 + 0.05)
        began = time.perf_counter()
        page = client.get(METRICS)
        took_ms.append((time.perf_counter() - began) * 1000)
    return took_ms, page

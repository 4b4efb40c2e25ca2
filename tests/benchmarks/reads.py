"""Measures the HTTP answers over a store of a million ids, on both databases: `python -m tests.benchmarks reads`."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from service.api.http.paging import write_cursor
from service.domain.transaction_log.states import CODES, EXPIRED
from service.store.queries.transaction_pages import PageCursor
from tests.benchmarks.figures import Figure, percentile, show
from tests.benchmarks.large_store import APPLICATIONS, CLUSTER, DAY_MS, NOW_MS, TOPICS, LargeStore, changing, fill
from tests.benchmarks.served import Client, items_of, of_cluster, serving
from tests.benchmarks.stores import STORES, database

BAR_MS, METRICS_BAR_MS, SERIES_BAR = 20.0, 50.0, 2_000
ASKED = 200
WARM_UP = 5
SLOW_S = 5.0
"""Time limit (s) for all repetitions of a query: a slow query is repeated fewer times."""

SORTS = ("age", "transactional_id", "last_updated")
LIVE = sorted(frozenset(CODES.values()) - {EXPIRED})
METRICS = "/metrics"
TOLD = ("one id", "timeline", "page by age", "findings", "expiring within 24h")
_TEXT = ", q of "


class Query(NamedTuple):
    """A kind of request. `path`: a function that returns the path of the next request; `fewest`: the minimum number of
    items in an answer."""

    name: str
    path: Callable[[random.Random], str]
    fewest: int = 1


class Times(NamedTuple):
    """The percentiles of answer times, in milliseconds."""

    p50: float
    p99: float


def run(ids: int = 1_000_000, stores: tuple[str, ...] = STORES) -> list[Figure]:
    return [figure for store in stores for figure in _on(store, ids)]


def _on(kind: str, ids: int) -> list[Figure]:
    with database(kind) as url:
        store = fill(url, ids)
        with serving(url) as client, changing(url) as change:
            print(f"{f'{kind}, {ids:,} ids, {ASKED} requests each':50} {'p50':>9} {'p99':>9}")
            pages = {query.name: _ask(client, query, change) for query in queries(store)}
            metrics = list(_metrics(client, kind))
    figures = [
        *(Figure(f"{kind}: {name}, p99", pages[name].p99, "ms", BAR_MS) for name in TOLD),
        _slowest(kind, {name: times for name, times in pages.items() if _TEXT not in name}),
        _slowest(kind, {name: times for name, times in pages.items() if _TEXT in name}),
        *metrics,
    ]
    show(f"reads: {ids:,} ids on {kind}, one client", figures)
    return figures


def _slowest(kind: str, pages: dict[str, Times]) -> Figure:
    name = max(pages, key=lambda name: pages[name].p99)
    return Figure(f"{kind}: slowest is {name}, p99", pages[name].p99, "ms", BAR_MS)


def queries(store: LargeStore) -> Iterator[Query]:
    """Yields a query for each kind of request that people and their tools send. Pages have 50 items."""
    ids, producer_ids = store.ids, store.producer_ids

    def one(path: str) -> Callable[[random.Random], str]:
        return lambda rng: of_cluster(path, id=rng.choice(ids))

    def page(**filters: str) -> Callable[[random.Random], str]:
        return lambda _: of_cluster("/transactions", **filters)

    def drawn(sort: str, filter_: str, draw: Callable[[random.Random], object]) -> Callable[[random.Random], str]:
        return lambda rng: of_cluster("/transactions", sort=sort, **{filter_: draw(rng)})

    yield Query("one id", one("/transaction"))
    yield Query("timeline", one("/transaction/timeline"), fewest=0)
    yield Query("timeline of a busy id", lambda r: of_cluster("/transaction/timeline", id=r.choice(store.busy)))
    yield Query("rates, one hour", one("/transaction/rates"), fewest=0)
    yield Query("producer id's owners", lambda r: of_cluster(f"/producers/{r.choice(producer_ids)}"))
    for sort in SORTS:
        name = f"page by {sort}"
        yield Query(name, page(sort=sort))
        yield Query(f"{name}, deep", _deep(sort, ids))
        yield Query(f"{name}, prefix of 10,000", drawn(sort, "prefix", _application))
        yield Query(f"{name}, prefix of all", page(sort=sort, prefix="application-"))
        for state in ("PrepareAbort", "CompleteAbort", "Expired"):
            yield Query(f"{name}, state={state}", page(sort=sort, state=state))
    for sort in ("age", "last_updated"):
        name = f"page by {sort}"
        yield Query(f"{name}, prefix of one id", drawn(sort, "prefix", lambda r: r.choice(ids)), fewest=0)
        yield Query(f"{name}, min_age=1h", page(sort=sort, min_age="1h"))
        yield Query(f"{name}, topic of 1,000", page(sort=sort, topic=TOPICS[0]))
        yield Query(f"{name}, topic of 50", page(sort=sort, topic=TOPICS[2]))
        yield Query(f"{name}, producer_id", drawn(sort, "producer_id", lambda r: r.choice(producer_ids)), fewest=0)
        yield Query(f"{name}, state=Ongoing, q", page(sort=sort, state="Ongoing", q="77"))
        yield Query(f"{name}, q of 100,000", page(sort=sort, q="Worker-00"))
        yield Query(f"{name}, q of 1,000", drawn(sort, "q", lambda r: f"-{r.randrange(1000):04}"), fewest=0)
        yield Query(f"{name}, q of one", drawn(sort, "q", lambda r: r.choice(ids)[-10:]), fewest=0)
    yield Query("findings", lambda _: of_cluster("/findings"))
    yield Query("findings, status and kind", lambda _: of_cluster("/findings", status="confirmed", kind="data_gap"))
    yield Query("findings of one id", lambda r: of_cluster("/findings", transactional_id=r.choice(ids)), fewest=0)
    yield Query("expiring within 24h", lambda _: of_cluster("/expiring"))
    yield Query("expiring within 7d", lambda _: of_cluster("/expiring", within="7d"))
    yield Query("the cluster", lambda _: of_cluster(""))
    yield Query("coordinators", lambda _: of_cluster("/coordinators"))


def _application(rng: random.Random) -> str:
    return f"application-{rng.randrange(APPLICATIONS)}-worker-"


def _deep(sort: str, ids: list[bytes]) -> Callable[[random.Random], str]:
    """Returns a function that makes the path of a request for a page deep in the list. The cursor has a random id. If
    `sort` is `last_updated`, the cursor also has a random time of the last seven days."""
    filters = (CLUSTER, sort, LIVE, b"", None, None, None, b"")

    def path(rng: random.Random) -> str:
        at_ms = NOW_MS - rng.randrange(7 * DAY_MS) if sort == "last_updated" else None
        place = PageCursor(3 if sort == "age" else 0, at_ms, rng.choice(ids))
        return of_cluster("/transactions", sort=sort, cursor=write_cursor(place, *filters))

    return path


def _ask(client: Client, query: Query, change: Callable[[], None]) -> Times:
    """Measures the query. Before each measured request, commits to the store, so that no answer comes from a cache."""
    rng = random.Random(3)
    for _ in range(WARM_UP):
        client.get(query.path(rng))
    took: list[float] = []
    give_up = time.monotonic() + SLOW_S
    while len(took) < ASKED and time.monotonic() < give_up:
        path = query.path(rng)
        change()
        began = time.perf_counter()
        body = client.get(path)
        took.append((time.perf_counter() - began) * 1000)
        if items_of(body) < query.fewest:
            raise RuntimeError(f"{path} has too few items: {body.decode()}")
    times = Times(statistics.median(took), percentile(took, 0.99))
    print(f"{query.name:50} {times.p50:9.1f} {times.p99:9.1f} ms{'  MISSED' * (times.p99 > BAR_MS)}", flush=True)
    return times


def _metrics(client: Client, kind: str) -> Iterator[Figure]:
    """Measures /metrics. The service renders the page for the first request of each second. The other requests of that
    second get the same page."""
    made: list[float] = []
    given: list[float] = []
    for _ in range(ASKED // 10):
        time.sleep(1.05)
        for number in range(6):
            began = time.perf_counter()
            body = client.get(METRICS)
            (given if number else made).append((time.perf_counter() - began) * 1000)
    series = sum(not line.startswith(b"#") for line in body.splitlines())
    yield Figure(f"{kind}: /metrics from the cache, p50", statistics.median(given), "ms")
    yield Figure(f"{kind}: /metrics from the cache, p99", percentile(given, 0.99), "ms", METRICS_BAR_MS)
    yield Figure(f"{kind}: /metrics rendered again, p50", statistics.median(made), "ms")
    yield Figure(f"{kind}: /metrics rendered again, the longest", max(made), "ms")
    yield Figure(f"{kind}: /metrics, series", series, "series", SERIES_BAR)

"""Measures the time to load a page while many people load pages: `python -m tests.benchmarks readers`."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import psutil

from tests.benchmarks.figures import Figure, percentile, show
from tests.benchmarks.large_store import CLUSTER, changing, fill
from tests.benchmarks.served import Client, serving
from tests.benchmarks.stores import STORES, database
from tests.helpers.threads import repeated

IDS, CLIENTS = 120_000, 200
MANY_CLIENTS, SERVICES = 1_000, 2
POLL_S, SECONDS = 5.0, 60.0
CHANGES_A_SECOND = 2.0
"""Commits per second to the store. An application at rest makes as many, because each source reports once a second."""

BAR_MS, BAR_CORES = 250.0, 0.25
PAGES = tuple(f"/clusters/{CLUSTER}{page}" for page in ("", "/findings", "/partitions", "/transactions", "/pipeline"))


def run(stores: tuple[str, ...] = STORES, ids: int = IDS) -> list[Figure]:
    figures = [figure for store in stores for figure in _on(store, ids)]
    show(f"readers: each client asks for a page every {POLL_S:.0f} s, {ids:,} ids", figures)
    return figures


def _on(kind: str, ids: int) -> Iterator[Figure]:
    with database(kind) as url:
        fill(url, ids)
        with changed_now_and_then(url), ExitStack() as running:
            service = running.enter_context(serving(url))
            yield from _measure(kind, [service], CLIENTS, BAR_MS, BAR_CORES)
            if kind == "postgresql":
                services = [service, *(running.enter_context(serving(url)) for _ in range(SERVICES - 1))]
                yield from _measure(f"{kind}, {SERVICES} services", services, MANY_CLIENTS)


def _measure(
    what: str, services: Sequence[Client], clients: int, bar_ms: float | None = None, bar_cores: float | None = None
) -> Iterator[Figure]:
    """Yields the figures of one group of services. Raises RuntimeError if an answer is not a page."""
    for service in services:
        service.close()  # after a long pause, browsers need a new connection, too
        for page in PAGES:
            service.get(page)
    processes = [psutil.Process(service.pid) for service in services]
    before, began = _cpu_s(processes), time.monotonic()
    took_ms = asyncio.run(_poll(services, clients))
    cores = (_cpu_s(processes) - before) / (time.monotonic() - began)
    yield Figure(f"{what}, {clients:,} clients: a page, p50", statistics.median(took_ms), "ms")
    yield Figure("  p99", percentile(took_ms, 0.99), "ms", bar_ms)
    yield Figure("  pages requested and answered", len(took_ms), "pages")
    yield Figure("  CPU of the services", cores, "cores", bar_cores)


def _cpu_s(processes: Sequence[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


@contextmanager
def changed_now_and_then(url: str) -> Iterator[None]:
    """Commits to the store during the block, so that answers change."""
    with changing(url) as commit, repeated(commit, 1 / CHANGES_A_SECOND):
        yield


async def _poll(services: Sequence[Client], clients: int) -> Sequence[float]:
    """Returns, for each request, the milliseconds from its due time to its answer. The services get requests in turn,
    as behind a load balancer."""
    rng = random.Random(5)
    took_ms: list[float] = []
    end_s = time.monotonic() + SECONDS

    async def look(first_s: float, page: str, turn: int) -> None:
        due_s = time.monotonic() + first_s
        while due_s < end_s:
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            # every request uses a new connection, because the service closes idle ones after 5 s
            port, turn = services[turn % len(services)].port, turn + 1
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET {page} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Refresh: 1\r\n\r\n".encode())
            await _whole_answer(reader)
            took_ms.append((time.monotonic() - due_s) * 1000)
            writer.close()
            due_s += POLL_S

    await asyncio.gather(
        *(look(rng.uniform(0, POLL_S), PAGES[number % len(PAGES)], number) for number in range(clients))
    )
    return took_ms


async def _whole_answer(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    status, *lines = head.split("\r\n")
    if " 200 " not in status:
        raise RuntimeError(status)
    headers = dict(line.split(": ", 1) for line in lines if line)
    await reader.readexactly(int(headers["content-length"]))

"""Tests of events of findings: all streams share one reader of the store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from sqlalchemy import event

from service.api.http.state import Store
from service.notifications import feed
from service.notifications.feed import AllPlacesTaken, EventFeed
from service.store.engine import open_reader
from service.store.errors import StoreError
from service.store.finding_events import events_after
from tests.helpers.findings import WithFindings, observe
from tests.helpers.postgres import Postgres
from tests.helpers.stores import NOW_MS
from tests.helpers.waiting import LIMIT_S, wait_until


def stored(cluster: WithFindings) -> None:
    cluster.read()


pytestmark = pytest.mark.cluster(stored=stored)


class Streams:
    """A feed of finding events. `asked` counts how often the feed read the store."""

    def __init__(self, url: str) -> None:
        self.engine = open_reader(url)
        self.feed = EventFeed(Store(self.engine).read, lambda event: event.event)
        self.asked = 0
        event.listen(self.engine, "begin", self._count)

    def _count(self, *_: object) -> None:
        self.asked += 1

    def close(self) -> None:
        self.engine.dispose()


@pytest.fixture
def streams(cluster: WithFindings) -> Iterator[Streams]:
    streams = Streams(cluster.url)
    yield streams
    streams.close()


def happen(cluster: WithFindings, number: int, first: int = 0) -> None:
    """Stores `number` events. The events open and resolve one finding in turn."""
    for at in range(first, first + number):
        cluster.see(*([observe()] if at % 2 == 0 else []), now_ms=NOW_MS + at)


async def hear(stream: AsyncIterator[tuple[int, str]], number: int) -> list[int]:
    return [(await asyncio.wait_for(anext(stream), LIMIT_S))[0] for _ in range(number)]


async def listeners(streams: Streams, number: int) -> None:
    """Waits until `number` streams wait for an event."""
    while len(streams.feed._waiting) < number:
        await asyncio.sleep(0.01)


async def ended(stream: AsyncIterator[tuple[int, str]]) -> bool:
    try:
        await asyncio.wait_for(anext(stream), LIMIT_S)
    except StopAsyncIteration:
        return True
    return False


def test_two_hundred_streams_query_the_store_no_more_often_than_one(cluster: WithFindings, streams: Streams) -> None:
    async def listen() -> list[list[int]]:
        open_ = [streams.feed.follow(0) for _ in range(200)]
        hearing = [asyncio.create_task(hear(stream, 4)) for stream in open_]
        await asyncio.sleep(0)
        await asyncio.to_thread(happen, cluster, 4)
        heard = await asyncio.gather(*hearing)
        for stream in open_:
            await stream.aclose()  # type: ignore[attr-defined]
        return heard

    assert asyncio.run(listen()) == [[1, 2, 3, 4]] * 200
    assert streams.asked < 50, "the streams do not share their reads of the store"


def test_a_stream_far_behind_reads_all_old_events_and_then_new_ones(
    cluster: WithFindings, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream of a slow or returning client can be behind the events in memory. The stream then reads the older
    events from the store."""
    monkeypatch.setattr(feed, "AT_ONCE", 3)
    streams.feed = EventFeed(Store(streams.engine).read, lambda event: event.event, kept=2)
    happen(cluster, 10)

    async def listen() -> tuple[list[int], list[int], list[int]]:
        first, late = streams.feed.follow(9), streams.feed.follow(0)
        of_first = await hear(first, 1)
        of_late = await hear(late, 10)
        await asyncio.to_thread(happen, cluster, 8, 10)
        slow = await hear(first, 8)
        of_late += await hear(late, 8)
        return of_first, slow, of_late

    assert asyncio.run(listen()) == ([10], [*range(11, 19)], [*range(1, 19)])


def test_the_number_of_streams_is_bounded(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MOST_STREAMS", 2)
    with streams.feed.place(), streams.feed.place(), pytest.raises(AllPlacesTaken), streams.feed.place():
        pass
    with streams.feed.place():
        pass


def test_an_unavailable_store_ends_the_streams_and_a_new_one_begins(cluster: WithFindings, streams: Streams) -> None:
    def refuse(_: object) -> None:
        raise StoreError("gone")

    async def listen() -> tuple[bool, bool, list[int]]:
        async_iterator, other = streams.feed.follow(0), streams.feed.follow(0)
        waiting = [asyncio.create_task(ended(stream)) for stream in (async_iterator, other)]
        await asyncio.sleep(0)
        event.listen(streams.engine, "begin", refuse)
        both = await asyncio.gather(*waiting)
        event.remove(streams.engine, "begin", refuse)
        await asyncio.to_thread(happen, cluster, 1)
        return both[0], both[1], await hear(streams.feed.follow(0), 1)

    assert asyncio.run(listen()) == (True, True, [1])


def test_the_reader_rests_when_nobody_listens(cluster: WithFindings, streams: Streams) -> None:
    async def listen() -> tuple[int, int]:
        happen(cluster, 1)
        stream = streams.feed.follow(0)
        await hear(stream, 1)
        await stream.aclose()  # type: ignore[attr-defined]
        while streams.feed._reading is not None:
            await asyncio.sleep(0.05)
        asked = streams.asked
        other = Streams(cluster.url)  # the reader of `other` goes on, because it has a listener
        waiting = asyncio.create_task(ended(other.feed.follow(1)))
        while other.asked < 3:
            await asyncio.sleep(0.05)
        other.feed.close()
        await waiting
        other.close()
        return asked, streams.asked

    before, after = asyncio.run(listen())
    assert before == after


def test_all_streams_end_at_once_when_the_service_does(streams: Streams) -> None:
    async def listen() -> list[bool]:
        waiting = [asyncio.create_task(ended(streams.feed.follow(0))) for _ in range(3)]
        await listeners(streams, 3)
        streams.feed.close()
        return [*await asyncio.gather(*waiting), await ended(streams.feed.follow(0))]

    assert asyncio.run(listen()) == [True] * 4


def test_cancelled_streams_are_forgotten(streams: Streams) -> None:
    async def listen() -> int:
        for _ in range(3):
            waiting = asyncio.create_task(hear(streams.feed.follow(0), 1))
            await listeners(streams, 1)
            waiting.cancel()
            await asyncio.wait([waiting])
        return len(streams.feed._waiting)

    assert asyncio.run(listen()) == 0


WAITS = "SELECT count(*) FROM pg_locks WHERE NOT granted"


def test_events_of_two_clusters_appear_in_the_order_of_their_numbers(postgres: Postgres) -> None:
    """Two judges write events at the same time. PostgreSQL numbers an event before the commit, so event 2 could be
    committed before event 1."""
    held, go_on = threading.Event(), threading.Event()

    def wait(_: object) -> None:
        held.set()
        assert go_on.wait(LIMIT_S)

    with (
        postgres.database() as url,
        closing(WithFindings(url, "first")) as first,
        closing(WithFindings(url, "second")) as second,
        ThreadPoolExecutor(2) as threads,
    ):
        reader = open_reader(url)
        for cluster in (first, second):
            cluster.read()
        event.listen(first.engine, "commit", wait)
        slow = threads.submit(first.see, observe())
        assert held.wait(LIMIT_S)
        other = threads.submit(second.see, observe())

        def has_come_to_rest() -> bool:
            with reader.connect() as connection:
                return other.done() or connection.exec_driver_sql(WAITS).scalar_one() > 0

        try:
            wait_until(has_come_to_rest, bool, "the second judge's event to be written, or to wait for a lock")
            with reader.connect() as connection:
                assert events_after(connection, 0, 10) == [], "number 2 is visible before number 1"
        finally:
            go_on.set()
        slow.result(LIMIT_S)
        other.result(LIMIT_S)
        with reader.connect() as connection:
            reported = events_after(connection, 0, 10)
        reader.dispose()
    assert [(event.sequence, event.cluster) for event in reported] == [(1, "first"), (2, "second")]

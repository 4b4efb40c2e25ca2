"""One reader of the store's events for all who listen to them.

However many streams are open, the store is asked once every half second. The newest events are kept as they are sent;
a stream that is further behind, because its client was away or is slow, reads from the store until it has caught up.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from starlette.concurrency import run_in_threadpool

from service.api.http.problems import TOO_MANY_STREAMS, ProblemError
from service.api.http.store import Store
from service.api.schemas.findings import Finding
from service.api.schemas.shape import to_json
from service.store.errors import StoreError
from service.store.many_rows import batched
from service.store.queries import findings
from service.store.queries.findings import FindingEvent

LOOK_EVERY_S: Final = 0.5
AT_ONCE: Final = 100
KEPT: Final = 1_000
MOST_STREAMS: Final = 1_000

_WOKEN_AT_ONCE: Final = 20
_PAUSE_S: Final = 0.01
"""Between streams that are woken: an event for 500 of them at once takes 0.3 s, and health checks would wait."""


class FeedEvent(NamedTuple):
    """An event of a finding, with the finding as JSON in ASCII: many clients end lines at U+2028 and U+0085, too."""

    sequence: int
    event: str
    cluster: str
    data: str


class EventFeed:
    """The events after `follow` was called, for any number of streams of one event loop; at most MOST_STREAMS have a
    place."""

    def __init__(self, store: Store, kept: int = KEPT) -> None:
        self._store = store
        self._places = 0
        self._listening = 0
        self._reading: asyncio.Task[None] | None = None
        self._kept: deque[FeedEvent] = deque(maxlen=kept)
        self._position = 0  # sequence up to which the store has been read
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._is_closed = False

    @contextmanager
    def place(self) -> Iterator[None]:
        """Holds a place for a stream. ProblemError (503): all are taken."""
        if self._places >= MOST_STREAMS:
            raise ProblemError(
                503, TOO_MANY_STREAMS, f"{MOST_STREAMS:,} event streams are open, and no more are served", retry=True
            )
        self._places += 1
        try:
            yield
        finally:
            self._places -= 1

    async def follow(self, sequence: int) -> AsyncIterator[FeedEvent]:
        """Yields the events after `sequence` as they come. Ends when the store does not answer, or at `close`."""
        self._listening += 1
        try:
            while not self._is_closed:
                self._start_reading(sequence)
                try:
                    told = self._known_after(sequence)
                    if told is None:
                        told = await run_in_threadpool(self._read, sequence)
                except StoreError:
                    return
                for one in told:
                    sequence = one.sequence
                    yield one
                if not told:
                    await self._news()
                    if self._reading is None:
                        return
        finally:
            self._listening -= 1

    def close(self) -> None:
        """Ends all streams. May be called by a signal handler of the loop's thread."""
        self._is_closed = True
        self._end_streams()

    def _start_reading(self, sequence: int) -> None:
        """Starts the reader at the place of the first stream, unless it runs."""
        if self._reading is None:
            self._kept.clear()
            self._position = sequence
            self._reading = asyncio.create_task(self._run())

    async def _news(self) -> None:
        """Waits for the next events, or the end."""
        news = asyncio.get_running_loop().create_future()
        self._waiting[news] = None
        try:
            await news
        finally:
            del self._waiting[news]

    async def _run(self) -> None:
        try:
            while self._listening:
                told = await run_in_threadpool(self._read, self._position)
                if told:
                    self._position = told[-1].sequence
                    self._kept.extend(told)
                    await self._wake()
                if len(told) < AT_ONCE:
                    await asyncio.sleep(LOOK_EVERY_S)
        except StoreError:
            pass  # whoever listens comes again, and hears from the store itself what is wrong
        finally:
            self._end_streams()

    async def _wake(self) -> None:
        for some in batched(list(self._waiting), _WOKEN_AT_ONCE):
            _set(some)
            await asyncio.sleep(_PAUSE_S)

    def _end_streams(self) -> None:
        self._reading = None
        _set(self._waiting)

    def _known_after(self, sequence: int) -> list[FeedEvent] | None:
        """Returns the kept events after `sequence`; None if some of them are not kept."""
        oldest = self._kept[0].sequence if self._kept else self._position + 1
        return None if sequence < oldest - 1 else [one for one in self._kept if one.sequence > sequence]

    def _read(self, sequence: int) -> list[FeedEvent]:
        with self._store.read() as connection:
            return [_feed_event(one) for one in findings.events_after(connection, sequence, AT_ONCE)]


def _set(waiting: Iterable[asyncio.Future[None]]) -> None:
    for one in waiting:
        if not one.done():  # its stream may have been cancelled
            one.set_result(None)


def _feed_event(told: FindingEvent) -> FeedEvent:
    body = json.loads(to_json(Finding.of(told.finding, told.cluster)))
    return FeedEvent(told.sequence, told.event, told.cluster, json.dumps(body, separators=(",", ":")))

"""Reads the store's events once for all open streams.

However many streams are open, the store is read once every half second. The newest events are kept in memory, in the
form in which they are sent. A stream that is further behind, because its client was away or is slow, reads from the
store until it has caught up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Generic, NamedTuple, TypeVar

from sqlalchemy import Connection

from service.store import finding_events
from service.store.errors import StoreError
from service.store.finding_events import FindingEvent
from service.store.many_rows import batched

LOOK_EVERY_S: Final = 0.5
AT_ONCE: Final = 100
KEPT: Final = 1_000
MOST_STREAMS: Final = 1_000

_WOKEN_AT_ONCE: Final = 20
_PAUSE_S: Final = 0.01
"""Pause (s) after each _WOKEN_AT_ONCE streams: waking 500 streams at once takes 0.3 s, and health checks would wait."""

T = TypeVar("T")


class AllPlacesTaken(Exception):
    """Raised when MOST_STREAMS streams are open already."""


class Start(NamedTuple):
    """The place at which a stream begins: after `sequence`. `is_reset`: True if the store has lost events after the
    last event that the client received, or never had that event. The stream then goes on after the newest event."""

    sequence: int
    is_reset: bool


def start_after(connection: Connection, last: int | None) -> Start:
    """Returns the place after the event `last`. Returns the place after the newest event if `last` is None, if the
    store never had this event, or if the store does not have all events after `last` any more."""
    oldest, newest = finding_events.known_sequences(connection)
    if last is None:
        return Start(newest, is_reset=False)
    is_kept = oldest - 1 <= last <= newest
    return Start(last if is_kept else newest, is_reset=not is_kept)


class EventFeed(Generic[T]):
    """Gives the store's events to at most MOST_STREAMS streams of one event loop. `reading` opens a connection to the
    store. `render` turns an event into the form that is sent; an event is rendered once for all streams that are not
    behind."""

    def __init__(
        self,
        reading: Callable[[], AbstractContextManager[Connection]],
        render: Callable[[FindingEvent], T],
        kept: int = KEPT,
    ) -> None:
        self._reading_store, self._render = reading, render
        self._places = 0
        self._listening = 0
        self._reading: asyncio.Task[None] | None = None
        self._kept: deque[tuple[int, T]] = deque(maxlen=kept)
        self._position = 0  # sequence up to which the store has been read
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._is_closed = False

    @contextmanager
    def place(self) -> Iterator[None]:
        """Holds a place for a stream. Raises AllPlacesTaken if no place is free."""
        if self._places >= MOST_STREAMS:
            raise AllPlacesTaken
        self._places += 1
        try:
            yield
        finally:
            self._places -= 1

    async def follow(self, sequence: int) -> AsyncIterator[tuple[int, T]]:
        """Yields the events after `sequence` as they come, with their sequences. Ends when the store does not answer,
        or at `close`."""
        self._listening += 1
        try:
            while not self._is_closed:
                self._start_reading(sequence)
                try:
                    found = self._known_after(sequence)
                    if found is None:
                        found = await asyncio.to_thread(self._read, sequence)
                except StoreError:
                    return
                for one in found:
                    sequence = one[0]
                    yield one
                if not found:
                    await self._news()
                    if self._reading is None:
                        return
        finally:
            self._listening -= 1

    def close(self) -> None:
        """Ends all streams. A signal handler of the loop's thread can call it."""
        self._is_closed = True
        self._end_streams()

    def _start_reading(self, sequence: int) -> None:
        """Starts the reader at `sequence`, the position of the first stream, unless it runs already."""
        if self._reading is None:
            self._kept.clear()
            self._position = sequence
            self._reading = asyncio.create_task(self._run())

    async def _news(self) -> None:
        """Waits for the next events, or for the end of the streams."""
        news = asyncio.get_running_loop().create_future()
        self._waiting[news] = None
        try:
            await news
        finally:
            del self._waiting[news]

    async def _run(self) -> None:
        try:
            while self._listening:
                found = await asyncio.to_thread(self._read, self._position)
                if found:
                    self._position = found[-1][0]
                    self._kept.extend(found)
                    await self._wake()
                if len(found) < AT_ONCE:
                    await asyncio.sleep(LOOK_EVERY_S)
        except StoreError:
            pass  # the streams end; their clients connect again, and get the store's error then
        finally:
            self._end_streams()

    async def _wake(self) -> None:
        for some in batched(list(self._waiting), _WOKEN_AT_ONCE):
            _set(some)
            await asyncio.sleep(_PAUSE_S)

    def _end_streams(self) -> None:
        self._reading = None
        _set(self._waiting)

    def _known_after(self, sequence: int) -> list[tuple[int, T]] | None:
        """Returns the events after `sequence`; None if some of them are not kept in memory any more."""
        oldest = self._kept[0][0] if self._kept else self._position + 1
        return None if sequence < oldest - 1 else [one for one in self._kept if one[0] > sequence]

    def _read(self, sequence: int) -> list[tuple[int, T]]:
        with self._reading_store() as connection:
            return [
                (event.sequence, self._render(event))
                for event in finding_events.events_after(connection, sequence, AT_ONCE)
            ]


def _set(waiting: Iterable[asyncio.Future[None]]) -> None:
    for future in waiting:
        if not future.done():  # its stream may have been cancelled
            future.set_result(None)

"""Keeps each answer for as long as the store does not change, for a second at most: many readers of a page cost one
rendering.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from service.access.principal import Grant
from service.api.http.answers import unless_known
from service.api.http.principals import principal_of
from service.api.http.state import state_of
from service.store.data_version import DataVersion, DataVersions

KEPT_MS: Final = 1_000
"""Longest time for which an answer is kept: what it says about time (ages, sources that stall) is that old."""

REFRESH: Final = "x-refresh"
"""The header of a page that asks for itself again, and needs no answer of Kafka."""

Render = Callable[[Request], Coroutine[Any, Any, Response]]


class _Question(NamedTuple):
    """All that an answer depends on beside the store and the time. `grants`: those of who asks; who may see other
    clusters, or do other things, gets another answer."""

    path: str
    query: str
    is_refresh: bool
    grants: frozenset[Grant]


class _Kept(NamedTuple):
    response: Response
    version: DataVersion
    at_ms: int


class Answers:
    """The answers of one service. Those to the same question are made one at a time, and shared by all who asked before
    it was begun: nobody waits for more than two."""

    def __init__(self, versions: DataVersions, now_ms: Callable[[], int]) -> None:
        self._versions, self._now_ms = versions, now_ms
        self._kept: dict[_Question, _Kept] = {}
        self._next: dict[_Question, asyncio.Task[Response]] = {}
        self._turns: WeakValueDictionary[_Question, asyncio.Lock] = WeakValueDictionary()

    async def answer(self, request: Request, render: Render) -> Response:
        """Returns the answer that is kept, or what `render` returns. Raises what `render` raises."""
        is_refresh, grants = REFRESH in request.headers, principal_of(request).grants
        question = _Question(request.url.path, request.url.query, is_refresh, grants)
        kept = self._kept.get(question)
        if kept is not None and self._is_new(kept) and kept.version == await self._version():
            return _copy(kept.response)
        if question not in self._next:
            self._next[question] = asyncio.create_task(self._make(question, request, render))
        return _copy(await asyncio.shield(self._next[question]))

    async def _make(self, question: _Question, request: Request, render: Render) -> Response:
        """Waits for the rendering before, and renders if that one does not do."""
        async with self._turns.setdefault(question, asyncio.Lock()):
            del self._next[question]  # who asks from now on may need a newer one
            version, at_ms = await self._version(), self._now_ms()
            kept = self._kept.get(question)
            if kept is not None and kept.version == version and self._is_new(kept):
                return kept.response
            response = await render(request)
            self._kept = {question: kept for question, kept in self._kept.items() if self._is_new(kept)}
            if version is not None and response.status_code == 200:
                self._kept[question] = _Kept(_copy(response), version, at_ms)
            return response

    async def _version(self) -> DataVersion | None:
        return await run_in_threadpool(self._versions.current)

    def _is_new(self, kept: _Kept) -> bool:
        return 0 <= self._now_ms() - kept.at_ms < KEPT_MS


class KeptRoute(APIRoute):
    """The route of a GET whose answer depends on the store, the time and `_Question` alone."""

    def get_route_handler(self) -> Render:
        render = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return unless_known(request, await state_of(request).answers.answer(request, render))

        return handle


def _copy(response: Response) -> Response:
    """Returns the same answer with headers of its own: middleware adds to them."""
    copy = Response(bytes(response.body), response.status_code)
    copy.raw_headers = list(response.raw_headers)
    return copy

"""Turns a body into a response: JSON with a weak ETag, or 304 for a client that has the body already.

Keeps each answer while the store does not change, for a second at most, so that a page with many readers is rendered
once.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.access.principal import Grant
from service.api.http.fields import text_of_time
from service.api.http.parameters import only_known
from service.api.http.principals import principal_of
from service.api.http.problems import describe
from service.api.http.state import state_of
from service.api.schemas.shape import Page, Shape, to_json
from service.store.engine import DataVersion, DataVersions

ETAG_MOVES_EVERY_MS: Final = 5_000

T = TypeVar("T")

# match bytes of our own JSON; quotes inside a string are escaped, so no id can be mistaken for a key
_AS_OF: Final = re.compile(rb'"as_of":(?:null|"[^"]*")')


def answer(body: Shape, as_of_ms: int | None) -> Response:
    """Returns 200 with the body and its ETag."""
    content = to_json(body)
    headers = {"ETag": _etag(content, as_of_ms), "Cache-Control": "no-cache"}
    return Response(content, headers=headers, media_type="application/json")


def answer_page(
    kind: Callable[..., Page[T]], items: Sequence[T], next_cursor: str | None, as_of_ms: int | None, **more: Any
) -> Response:
    """Returns 200 with a page of the class `kind`. `more`: the values of further fields of the page."""
    return answer(kind(items=items, next_cursor=next_cursor, as_of=text_of_time(as_of_ms), **more), as_of_ms)


def answer_once(body: Shape, status: int = 200) -> Response:
    """Returns the answer to a request that did something. No cache may keep the answer. The answer has no ETag, because
    a 304 would hide what was done."""
    return Response(to_json(body), status, {"Cache-Control": "no-store"}, "application/json")


def unless_known(request: Request, response: Response) -> Response:
    """Returns the response, or 304 if If-None-Match names the response's ETag."""
    etag = response.headers.get("etag")
    if etag is None or not _is_known(request.headers.get("if-none-match", ""), etag):
        return response
    return Response(status_code=304, headers={"ETag": etag, "Cache-Control": "no-cache"})


def _etag(content: bytes, as_of_ms: int | None) -> str:
    """Returns a weak ETag: a digest of the body without `as_of`, and of `as_of` rounded down to 5 s.

    While only `as_of` changes, the ETag changes every 5 s. So the `as_of` that a client has when it gets 304 is less
    than 5 s older than the newest one. While nothing changes, the ETag stays the same.
    """
    step = None if as_of_ms is None else as_of_ms // ETAG_MOVES_EVERY_MS
    digest = blake2b(_AS_OF.sub(b"", content) + str(step).encode(), digest_size=9).hexdigest()
    return f'W/"{digest}"'


def _is_known(if_none_match: str, etag: str) -> bool:
    """Returns whether the header contains the ETag, by the weak comparison of RFC 9110."""
    known = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    return "*" in known or etag.removeprefix("W/") in known


class HeadAsGet:
    """Pure ASGI middleware that answers HEAD as GET without a body.

    This middleware is the innermost one, so the middleware around it still sees a HEAD.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_start(message: Message) -> None:
            """Sends the start of the response with an empty body, and drops all later messages: they carry the body."""
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b""})

        as_get = {**scope, "method": "GET"}
        try:
            await self._app(as_get, receive, send_start)
        finally:
            # the metrics middleware reads the route from this scope
            scope["route"], scope["path_params"] = as_get.get("route"), as_get.get("path_params", {})


KEPT_MS: Final = 1_000
"""Longest time (ms) for which an answer is kept. Ages in an answer, and the sources reported as stalled, may be out of
date by this much."""

REFRESH: Final = "x-refresh"
"""The header that an open page sends when it refreshes itself. The answer to such a request needs nothing from
Kafka."""

Render = Callable[[Request], Coroutine[Any, Any, Response]]


class _Question(NamedTuple):
    """The key of a kept answer: everything that the answer depends on, except the store and the time. `grants`: the
    grants of the request's sender, because the answer contains only what the sender may see and do."""

    path: str
    query: str
    is_refresh: bool
    grants: frozenset[Grant]


class _Kept(NamedTuple):
    response: Response
    version: DataVersion
    at_ms: int


class Answers:
    """The answers of one service. Answers to the same question are rendered one at a time, and all requests that came
    before a rendering began share its result. So a request waits for two renderings at most."""

    def __init__(self, versions: DataVersions, now_ms: Callable[[], int]) -> None:
        self._versions, self._now_ms = versions, now_ms
        self._kept: dict[_Question, _Kept] = {}
        self._next: dict[_Question, asyncio.Task[Response]] = {}
        self._turns: WeakValueDictionary[_Question, asyncio.Lock] = WeakValueDictionary()

    async def answer(self, request: Request, render: Render) -> Response:
        """Returns the kept answer if it is up to date, else the answer that `render` returns. Raises what `render`
        raises."""
        is_refresh, grants = REFRESH in request.headers, principal_of(request).grants
        question = _Question(request.scope["path"], request.url.query, is_refresh, grants)
        kept = self._kept.get(question)
        if kept is not None and self._is_new(kept) and kept.version == await self._version():
            return _copy(kept.response)
        if question not in self._next:
            self._next[question] = asyncio.create_task(self._make(question, request, render))
        return _copy(await asyncio.shield(self._next[question]))

    async def _make(self, question: _Question, request: Request, render: Render) -> Response:
        """Waits for the previous rendering of the answer. Returns the kept answer if it is up to date, else renders a
        new one."""
        async with self._turns.setdefault(question, asyncio.Lock()):
            del self._next[question]  # a request that comes from now on may need a newer answer
            version, at_ms = await self._version(), self._now_ms()
            kept = self._kept.get(question)
            if kept is not None and kept.version == version and self._is_new(kept):
                return kept.response
            response = await render(request)
            self._kept = {question: kept for question, kept in self._kept.items() if self._is_new(kept)}
            if version is not None and response.status_code == 200 and not hasattr(request.state, "asked_kafka"):
                self._kept[question] = _Kept(_copy(response), version, at_ms)
            return response

    async def _version(self) -> DataVersion | None:
        return await run_in_threadpool(self._versions.current)

    def _is_new(self, kept: _Kept) -> bool:
        return 0 <= self._now_ms() - kept.at_ms < KEPT_MS


def note_question_to_kafka(request: Request) -> None:
    """Notes that the answer to the request contains an answer of Kafka. Such an answer is not kept."""
    request.state.asked_kafka = True


class KeptRoute(APIRoute):
    """The route of a GET whose answer depends on the store, the time and `_Question` alone, unless its function calls
    `note_question_to_kafka`."""

    def get_route_handler(self) -> Render:
        render = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return unless_known(request, await state_of(request).answers.answer(request, render))

        return handle


Handler = TypeVar("Handler", bound=Callable[..., Response])


class KeptRouter(APIRouter):
    """Routes of REST that read the store. Parameters that a route does not have are refused."""

    def __init__(self, tag: str) -> None:
        super().__init__(route_class=KeptRoute, tags=[tag], dependencies=[Depends(only_known)])

    def read(self, path: str, operation_id: str, body: type[Shape]) -> Callable[[Handler], Handler]:
        """Declares a GET about one cluster, which answers with `body`. If `body` is a page, the route may also answer
        400, because it takes a cursor."""
        problems = (400, 404, 422, 503) if issubclass(body, Page) else (404, 422, 503)
        return self.get(path, operation_id=operation_id, response_model=body, responses=describe(*problems))


def _copy(response: Response) -> Response:
    """Returns a copy of the response with headers of its own: middleware adds headers to each response, and must not
    change the kept one."""
    copy = Response(bytes(response.body), response.status_code)
    copy.raw_headers = list(response.raw_headers)
    return copy

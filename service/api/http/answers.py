"""Turns a body into a response: JSON with a weak ETag, or 304 for a client that has it already."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Final, TypeVar

from fastapi import Request, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.http.fields import text_of_time
from service.api.schemas.shape import Page, Shape, to_json

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
    """Returns 200 with a page of this kind. `more`: what it has beside the items."""
    return answer(kind(items=items, next_cursor=next_cursor, as_of=text_of_time(as_of_ms), **more), as_of_ms)


def unless_known(request: Request, response: Response) -> Response:
    """Returns the response, or 304 if If-None-Match names its ETag."""
    etag = response.headers.get("etag")
    if etag is None or not _is_known(request.headers.get("if-none-match", ""), etag):
        return response
    return Response(status_code=304, headers={"ETag": etag, "Cache-Control": "no-cache"})


def _etag(content: bytes, as_of_ms: int | None) -> str:
    """Returns a weak ETag: a digest of the body without `as_of`, and of `as_of` rounded down to 5 s.

    While only `as_of` moves, the ETag changes every 5 s, so that a client that gets 304 never computes ages from an
    older `as_of`. If `as_of` does not move either, the ETag stays the same.
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

    This middleware is the innermost one: those around it still see a HEAD.
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

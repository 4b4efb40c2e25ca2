"""Turns what was read into a response: JSON, a weak ETag, 304 for who has it already."""

from __future__ import annotations

import json
import re
from hashlib import blake2b
from typing import Any, Final

from fastapi import Request, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.http.fields import spell_out_wide_numbers

ETAG_MOVES_EVERY_MS: Final = 5_000

# bytes of our own JSON; inside of a text every quote has a backslash, so no id looks like a key
_AS_OF: Final = re.compile(rb'"as_of":(?:null|"[^"]*")')
_MAYBE_WIDE: Final = re.compile(rb":-?[0-9]{16}")


def answer(request: Request, body: dict[str, Any], as_of_ms: int | None) -> Response:
    """200 with the body, or 304 if the request names its ETag."""
    content = _json(body)
    if _MAYBE_WIDE.search(content):
        content = _json(spell_out_wide_numbers(body))
    headers = {"ETag": _etag(content, as_of_ms), "Cache-Control": "no-cache"}
    if _is_known(request.headers.get("if-none-match", ""), headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type="application/json")


def _etag(content: bytes, as_of_ms: int | None) -> str:
    """Weak: it stands while nothing but `as_of` moves, for 5 s at most, or clients would compute ages from an old one.

    It stops changing only when `as_of` does.
    """
    step = None if as_of_ms is None else as_of_ms // ETAG_MOVES_EVERY_MS
    digest = blake2b(_AS_OF.sub(b"", content) + str(step).encode(), digest_size=9).hexdigest()
    return f'W/"{digest}"'


def _is_known(if_none_match: str, etag: str) -> bool:
    """The weak comparison of RFC 9110."""
    known = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    return "*" in known or etag.removeprefix("W/") in known


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


class HeadAsGet:
    """Pure ASGI, next to the routes: what lies around it still sees a HEAD."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_start(message: Message) -> None:
            """Whatever follows it is body, in one form or another."""
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b""})

        as_get = {**scope, "method": "GET"}
        try:
            await self._app(as_get, receive, send_start)
        finally:
            # where the metrics look for it
            scope["route"], scope["path_params"] = as_get.get("route"), as_get.get("path_params", {})

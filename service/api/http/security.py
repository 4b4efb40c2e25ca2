"""Adds response headers that restrict what a browser does with an answer, and keeps redirects on the same host."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS: Final[dict[str, str]] = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers hide the origin of our own forms, too
}


class SecurityHeaders:
    """Pure ASGI middleware that adds to every response the headers in `HEADERS` that the response lacks. Response
    bodies pass through unchanged, streams included. Removes the host from redirects, because the framework takes that
    host from the request's header Host."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if "location" in headers:
                    headers["location"] = urlsplit(headers["location"])._replace(scheme="", netloc="").geturl()
            await send(message)

        await self._app(scope, receive, send_with_headers)

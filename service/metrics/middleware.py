"""ASGI middleware that counts requests. Pure ASGI: an answer that streams for hours passes through untouched."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from service.metrics.page import Metrics
from service.metrics.requests import UNROUTED

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

_CONVERTOR: Final = re.compile(r":\w+}")
"""Matches the convertor in `{name:path}`, which is not part of the name."""


class HttpMetrics:
    """Counts requests and measures them. To be added with `app.add_middleware(HttpMetrics, metrics=metrics)`."""

    def __init__(self, app: App, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Counts the request. An exception that reaches us counts as 500, which is what the server answers then."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500
        began = time.perf_counter()

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            self._metrics.requests.count(scope["method"], route_of(scope), status, time.perf_counter() - began)


def route_of(scope: Message) -> str:
    """Returns the template that the router left in the scope, with the prefix under which its router is included: a
    REST route and a page may have the same path.
    """
    declared = getattr(scope.get("route"), "path", None)
    if declared is None:
        return UNROUTED
    template = _CONVERTOR.sub("}", declared)
    filled = template.format(**scope["path_params"])
    prefix = scope["path"].removesuffix(filled) if scope["path"].endswith(filled) else ""
    return f"{prefix}{template}"

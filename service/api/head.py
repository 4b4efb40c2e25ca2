"""HEAD: what GET would answer, without the body (RFC 9110). Load balancers ask so; FastAPI's routes take GET alone."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


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

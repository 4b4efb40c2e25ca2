"""Serves MCP by HTTP (streamable, stateless) within the service. Tools ask the service's own REST with the credentials
of the request that calls them, so a caller sees the same by MCP as by REST."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
from fastapi import Request
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from service.access.needs import MCP
from service.api.http.fields import API
from service.mcp.asking import Ask, answer_of, path_of
from service.mcp.server import Context, create_server

_MOST_BYTES: Final = 100_000
"""Maximum size (bytes) of a request: more than three times the longest id (32,767 bytes)."""


class McpEndpoint:
    """The endpoint of one application. The endpoint answers only inside the context `running`. Requests are independent
    of each other, so no session is kept."""

    def __init__(self, version: str) -> None:
        server: Server[Any] = create_server(version, _own_rest)
        # hosts and other sites are checked before (service.api.http.access)
        self._sessions = StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=_MOST_BYTES
        )
        self.route: Final = Route(MCP, self, methods=["POST"], include_in_schema=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self.route  # the framework notes only its own routes there; metrics count by it
        await self._sessions.asgi_app(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._sessions.run():
            yield


def _own_rest(context: Context) -> Ask:
    """Returns a function that asks this application's REST with the credentials of the request."""
    request = context.request
    assert isinstance(request, Request)
    headers = {name: request.headers[name] for name in ("authorization", "host") if name in request.headers}
    client = request.client or ("unknown", 0)
    transport = httpx2.ASGITransport(request.app, raise_app_exceptions=False, client=(client[0], client[1]))

    async def ask(*path: str, **query: str | Sequence[str]) -> dict[str, Any]:
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as rest:
            answer = await rest.get(API + path_of(path, query), headers=headers)
        return answer_of(answer.status_code, answer.content)

    return ask

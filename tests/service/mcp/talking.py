"""Talks to txnscope's server of the Model Context Protocol with the SDK's own client, by stdio and by HTTP."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import anyio
import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from service.app import create_app
from service.mcp.http import McpEndpoint
from tests.helpers.paths import ROOT
from tests.helpers.servers import serving_app
from tests.helpers.stores import NOW_MS

T = TypeVar("T")
Script = Callable[[Client], Awaitable[T]]
Talk = Callable[[Script[Any]], Any]
"""Connects, runs a script with the client, and returns what the script returns."""


@contextmanager
def served(store_url: str, port: int = 0) -> Iterator[str]:
    """Yields the address of a service with tools for language models. The service uses the store at `store_url`, and
    its clock shows NOW_MS."""
    app = create_app(store_url, "1.2.3", now_ms=lambda: NOW_MS, mcp=McpEndpoint("1.2.3"))
    with serving_app(app, port) as url:
        yield url


def by_http(url: str, script: Script[T], headers: dict[str, str] | None = None, mode: str = "auto") -> T:
    async def talk() -> T:
        async with (
            httpx2.AsyncClient(headers=headers or {}, timeout=60, trust_env=False) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
        ):
            return await script(client)

    return anyio.run(talk)


def by_stdio(url: str, script: Script[T], *arguments: str) -> T:
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "service.cli", "mcp", "--url", url, *arguments],
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
    )

    async def talk() -> T:
        async with Client(command) as client:
            return await script(client)

    return anyio.run(talk)


TRANSPORTS: dict[str, Callable[..., Any]] = {"http": by_http, "stdio": by_stdio}


def talk_to(url: str, transport: str) -> Talk:
    return partial(TRANSPORTS[transport], url)


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Calls a tool and returns its answer, which has to be one JSON object in ASCII."""
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    assert content.type == "text"
    assert content.text.isascii()
    answer = json.loads(content.text)
    assert isinstance(answer, dict)
    assert result.is_error == ("error" in answer)
    return answer


def answered(talk: Talk, tool: str, **arguments: Any) -> dict[str, Any]:
    """Calls one tool over a connection of its own, and returns the answer."""

    async def script(client: Client) -> dict[str, Any]:
        return await ask(client, tool, **arguments)

    found: dict[str, Any] = talk(script)
    return found

"""`txnscope mcp`: serves the Model Context Protocol on stdin and stdout, with data from the REST API of the
service at --url."""

from __future__ import annotations

import logging
import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from service.cli.errors import FINE, CommandFailed
from service.cli.exposure import MCP_IS_MISSING
from service.cli.rest import Service
from service.cli.version import version
from service.settings import Settings


def run(_flags: Namespace, settings: Settings) -> int:
    """Serves until stdin ends. If the service does not answer, the tools report an error, and the command goes on.
    Raises CommandFailed: code 2 if the key file cannot be used, or the extra `mcp` is not installed."""
    rest = Service(settings)
    if find_spec("mcp") is None:
        raise CommandFailed(MCP_IS_MISSING)
    # imported here, because the extra may not be installed
    import anyio
    from mcp.server.stdio import stdio_server

    from service.mcp.asking import Refused, path_of
    from service.mcp.server import create_server

    async def ask(*path: str, **query: str | Sequence[str]) -> dict[str, Any]:
        try:
            return await anyio.to_thread.run_sync(rest.read, path_of(path, query))
        except CommandFailed as error:
            raise Refused(str(error)) from None

    async def serve() -> None:
        server = create_server(version(), lambda _: ask)
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    anyio.run(serve)
    return FINE

"""The server of an application, ready to run on a socket."""

from __future__ import annotations

from asyncio import constants
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, Final

import uvicorn

from service.server import protocol
from service.server.connections import BACKLOG, Connections, most_connections
from service.server.protocol import BoundedConnection

_DRAIN_S: Final = 3
"""Seconds that running requests may take after SIGTERM; below the 5 s that `service.processes.lifeline` leaves."""


class Server(uvicorn.Server):
    """uvicorn's server with bounded connections. `on_exit` is called by the signal that ends it: what has no end of its
    own, like a stream, would be cut off after _DRAIN_S."""

    def __init__(self, app: Any, on_exit: Callable[[], None], **more: Any) -> None:
        self._on_exit = on_exit
        # uvicorn passes none on. A handshake has a file and no place among the connections yet: a minute is too long
        constants.SSL_HANDSHAKE_TIMEOUT = protocol.REQUEST_WITHIN_S
        connection: Any = partial(BoundedConnection, Connections(most_connections()))
        super().__init__(
            uvicorn.Config(
                app,
                http=connection,
                backlog=BACKLOG,
                ws="none",
                access_log=False,
                log_config=None,
                timeout_graceful_shutdown=_DRAIN_S,
                lifespan="on",
                **more,
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._on_exit()
        super().handle_exit(sig, frame)

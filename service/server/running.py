"""The server of an application, ready to run on a socket, with settings of the interpreter for thousands of
connections, and a bound on what a flood of requests can write into the log.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import sys
import time
from asyncio import constants
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any, Final, NamedTuple

import uvicorn

from service.server import protocol
from service.server.protocol import BACKLOG, BoundedConnection, HeldConnections, most_connections

_COLLECT_AFTER: Final = (5_000, 20, 100)
"""As for `gc.set_threshold`. A search through all objects takes a tenth of a second with 3,000 connections, and stops
everything meanwhile: it should be rare."""

_SWITCH_S: Final = 0.0005
"""Time for which a thread keeps the interpreter while others want it. With the default, 5 ms, the event loop waits
for several threads that make pages: under a crowd of clients, health checks took three times as long."""

_M_ARENA_MAX: Final = -8  # glibc, malloc.h


def prepare() -> None:
    """Sets this process up. Everything that is loaded by now is taken to stay."""
    # a search for garbage among the modules would now and then delay a request by 50 ms
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    sys.setswitchinterval(_SWITCH_S)
    # glibc gives threads arenas of their own, each with room that no other can use: 20 MB after ten minutes of a crowd.
    # They never allocate at the same time anyway. Other C libraries have no such function
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


PERIOD_S: Final = 60.0
MOST_ALIKE: Final = 10
"""Lines of one kind, by their logger and their message without its values, that are written in a period."""
_MOST_KINDS: Final = 1_000


class _Told(NamedTuple):
    began_s: float
    lines: int


class LogLimit(logging.Filter):
    """Lets MOST_ALIKE lines of a kind pass in PERIOD_S. The first one afterwards says how many were left out."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock_s = clock_s
        self._told: dict[tuple[str, str], _Told] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now_s, kind = self._clock_s(), (record.name, str(record.msg))
        told = self._told.get(kind, _Told(now_s, 0))
        if now_s - told.began_s >= PERIOD_S:
            if told.lines > MOST_ALIKE:
                record.msg = f"{record.getMessage()} ({told.lines - MOST_ALIKE:,} more such lines were left out)"
                record.args = ()
            told = _Told(now_s, 0)
        if len(self._told) >= _MOST_KINDS and kind not in self._told:
            self._told.clear()
        self._told[kind] = _Told(told.began_s, told.lines + 1)
        return told.lines < MOST_ALIKE


_DRAIN_S: Final = 3
"""Seconds that running requests may take after SIGTERM; below the 5 s that `service.processes.lifeline` leaves."""


class Server(uvicorn.Server):
    """uvicorn's server with bounded connections. `on_exit` is called by the signal that ends it: what has no end of its
    own, like a stream, would be cut off after _DRAIN_S."""

    def __init__(self, app: Any, on_exit: Callable[[], None], **more: Any) -> None:
        self._on_exit = on_exit
        # uvicorn passes none on. A handshake has a file and no place among the connections yet: a minute is too long
        constants.SSL_HANDSHAKE_TIMEOUT = protocol.REQUEST_WITHIN_S
        connection: Any = partial(BoundedConnection, HeldConnections(most_connections()))
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

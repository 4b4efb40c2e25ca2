"""The server of an application, settings of the interpreter for thousands of connections, and a limit on the log lines
that a flood of requests can write.
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
"""Arguments of `gc.set_threshold`. A full collection has to be rare: with 3,000 connections it takes a tenth of a
second, and everything else stops meanwhile."""

_SWITCH_S: Final = 0.0005
"""Time (s) after which a thread has to give up the interpreter if other threads wait for it. With the default (5 ms),
the event loop has to wait while several threads make pages: with many clients, health checks took three times as
long."""

_M_ARENA_MAX: Final = -8  # glibc, malloc.h


def prepare() -> None:
    """Tunes the interpreter and malloc of this process. From then on, the garbage collector ignores the objects that
    existed at the call."""
    # a garbage collection that includes the modules would now and then delay a request by 50 ms
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    sys.setswitchinterval(_SWITCH_S)
    # glibc gives each thread an arena, whose free memory other threads cannot use: 20 MB after ten minutes of a crowd.
    # One arena is enough: the threads never allocate at the same time. Other C libraries have no mallopt
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


PERIOD_S: Final = 60.0
MOST_ALIKE: Final = 10
"""Maximum number of lines of one kind in a period. Lines with the same logger and message format are of one kind."""
_MOST_KINDS: Final = 1_000


class _Told(NamedTuple):
    began_s: float
    lines: int


class LogLimit(logging.Filter):
    """Lets MOST_ALIKE lines of a kind pass in each period of PERIOD_S. The first such line after the period contains
    the number of lines that were left out."""

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
"""Longest time (s) for running requests to end after SIGTERM. Less than the 5 s after which
`service.processes.lifeline` kills the process."""


class Server(uvicorn.Server):
    """uvicorn's server with bounded connections. The signal that ends the server calls `on_exit`, which has to end the
    event streams: otherwise they are cut off after _DRAIN_S."""

    def __init__(self, app: Any, on_exit: Callable[[], None], **more: Any) -> None:
        self._on_exit = on_exit
        # uvicorn has no setting for it. A handshake holds a descriptor, but is not counted as a connection yet, so
        # asyncio's default of a minute is too long
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

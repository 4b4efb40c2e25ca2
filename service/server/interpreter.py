"""Settings of the interpreter for a process with thousands of connections and a few threads that make pages."""

from __future__ import annotations

import ctypes
import gc
import sys
from contextlib import suppress
from typing import Final

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

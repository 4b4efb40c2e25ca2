"""Limits an application to half a core: on two cores, its processes run in a quarter of each second."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import psutil

from tests.helpers.processes import send

RUNS_S: Final = 0.25
STOPS_S: Final = 0.75


@contextmanager
def starved(running: Callable[[], Sequence[psutil.Process]]) -> Iterator[None]:
    """Until the block ends, stops all processes of an application for three quarters of each second. `running` returns
    the processes, and is called each second, so that new processes are stopped, too."""
    ending = threading.Event()

    def take_turns() -> None:
        while not ending.wait(RUNS_S):
            stopped = running()
            send(signal.SIGSTOP, stopped)
            ending.wait(STOPS_S)
            send(signal.SIGCONT, stopped)

    thread = threading.Thread(target=take_turns, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()

"""Leaves half a core to an application of two: all its processes are stopped for three quarters of the time."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.harm.watched import Watch
from tests.helpers.processes import send

RUNS_S: Final = 0.25
STOPS_S: Final = 0.75


@contextmanager
def starved(app: Watch) -> Iterator[None]:
    """Starves the application until the block ends, in turns of a second. New processes are stopped from the next turn
    on."""
    ending = threading.Event()

    def take_turns() -> None:
        while not ending.wait(RUNS_S):
            stopped = app.processes()
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

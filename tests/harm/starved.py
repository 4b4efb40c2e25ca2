"""Half a core for a whole application of two cores: all its processes are stopped three quarters of the time."""

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
    """Until the block ends, in turns of a second; processes that come meanwhile are stopped with the others."""
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

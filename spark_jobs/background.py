"""Work beside the reading of the log: in a thread of its own, again and again, as long as the lease is held."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from service.store.errors import LeaseLost
from spark_jobs.reasons import reason
from spark_jobs.source.planner import wall_clock_ms

log = logging.getLogger("txnscope.background")

LONGEST_PAUSE_S: Final = 30.0
_END_S: Final = 10.0


@contextmanager
def repeated(name: str, work: Callable[[int], float]) -> Iterator[None]:
    """`work` gets the time in ms and answers in how many seconds it wants to be called again; until the block ends.

    What goes wrong is told once and tried again: it may be late, the reading of the log goes on.
    """
    stopping = threading.Event()
    thread = threading.Thread(target=_repeat, args=(name, work, stopping), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(timeout=_END_S)


def _repeat(name: str, work: Callable[[int], float], stopping: threading.Event) -> None:
    pause_s, told = 0.0, ""
    while not stopping.wait(pause_s):
        try:
            pause_s, told = work(wall_clock_ms()), ""
        except LeaseLost:
            return
        except Exception as e:
            if (text := reason(e)) != told:
                log.warning("%s waits and tries again: %s", name, text)
                told = text
            pause_s = min(max(pause_s * 2, 1.0), LONGEST_PAUSE_S)

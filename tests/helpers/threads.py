"""Runs work in a thread during a block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.helpers.waiting import LIMIT_S


@contextmanager
def repeated(work: Callable[[], object], every_s: float) -> Iterator[None]:
    """Calls `work` every `every_s` seconds until the block ends."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(every_s):
            work()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(LIMIT_S)

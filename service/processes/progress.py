"""Progress of long work: a thread reports its steps, and the listener that watches over the thread receives them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_heard: Final = threading.local()


def step() -> None:
    """Reports a step of this thread, such as a request to a broker or a transaction of the store, to its listener."""
    listener: Callable[[], None] | None = getattr(_heard, "by", None)
    if listener is not None:
        listener()


@contextmanager
def heard_by(listener: Callable[[], None]) -> Iterator[None]:
    """Sends the steps of this thread to `listener` until the block ends."""
    before = getattr(_heard, "by", None)
    _heard.by = listener
    try:
        yield
    finally:
        _heard.by = before


def touch(path: str) -> None:
    """Reports a step to another process on this machine, which sees the file's time change. Does nothing without a
    path."""
    if path:
        with suppress(OSError):  # the folder is gone with the process that watched the file
            Path(path).touch()

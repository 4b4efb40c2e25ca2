"""What Ctrl-C and its like do: once they end the demo, afterwards nothing, so that the ending is not cut short."""

from __future__ import annotations

import signal
from typing import NoReturn


def interrupt_on_signals() -> None:
    """SIGTERM and SIGHUP (the terminal is closed) become what Ctrl-C is: a KeyboardInterrupt."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)


def ignore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt

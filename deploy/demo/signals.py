"""Handles Ctrl-C and similar signals: the first one ends the demo, later ones are ignored so that it ends cleanly."""

from __future__ import annotations

import signal
from typing import NoReturn


def interrupt_on_signals() -> None:
    """Makes SIGTERM and SIGHUP (the terminal is closed) raise KeyboardInterrupt, as Ctrl-C does."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)


def ignore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt

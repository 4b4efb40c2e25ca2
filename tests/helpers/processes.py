"""Processes that tests look for, wait for and end.

Numbers alone do not say who somebody is: Linux gives them again, within minutes where thousands of threads come and go,
and SIGKILL to the number of a thread ends the whole process. psutil compares when a process began, too.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from contextlib import suppress

import psutil


def with_environment(name: str, value: str) -> list[psutil.Process]:
    """Those that run and have this variable, oldest first: everything that came from the one that was given it."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(name) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return sorted(found, key=lambda one: (one.create_time(), one.pid))


def is_alive(pid: int) -> bool:
    """Returns whether a process has this number now. A zombie counts as ended."""
    with suppress(psutil.NoSuchProcess):
        return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def command_of(process: psutil.Process) -> str:
    """Empty: it has gone."""
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def still_running(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Of these, those that have not ended."""
    return [one for one in processes if one.is_running() and is_alive(one.pid)]


def send(number: signal.Signals, processes: Iterable[psutil.Process]) -> None:
    """To those that are left."""
    for one in still_running(processes):
        with suppress(psutil.NoSuchProcess):
            one.send_signal(number)

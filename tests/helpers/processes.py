"""Finds, watches and ends processes for tests.

A process number alone does not identify a process. Linux reuses numbers, and does so within minutes if thousands of
threads start and end. A thread has a number, too: SIGKILL to this number ends the whole process of the thread. So
psutil also compares start times.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress

import psutil


def all_processes() -> Iterator[psutil.Process]:
    """Returns an iterator over all processes, zombies included. Clears psutil's cache first: psutil caches processes by
    number, and refuses to signal a cached process whose number was reused."""
    psutil.process_iter.cache_clear()
    return psutil.process_iter()


def with_environment(name: str, value: str) -> list[psutil.Process]:
    """Returns the running processes with this environment variable, oldest first: the process that was started with the
    variable, and its descendants. Leaves out processes whose environment cannot be read."""
    found = []
    for process in all_processes():
        with suppress(psutil.Error):
            if process.environ().get(name) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return sorted(found, key=lambda process: (process.create_time(), process.pid))


def is_alive(pid: int) -> bool:
    """Returns whether a running process has this number. A zombie counts as ended."""
    with suppress(psutil.NoSuchProcess):
        return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def command_of(process: psutil.Process) -> str:
    """Returns the command line of the process, or an empty text if the process has ended or cannot be read."""
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def still_running(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Returns the processes that have not ended. A zombie counts as ended."""
    return [process for process in processes if process.is_running() and is_alive(process.pid)]


def send(number: signal.Signals, processes: Iterable[psutil.Process]) -> None:
    for process in still_running(processes):
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)

"""Reads from Linux which processes belong together, and how long they wait for a processor. Other systems: nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

_PROC: Final = Path("/proc")
_ZOMBIE: Final = "Z"
_STOPPED: Final = "T"
_STATE, _PARENT, _SESSION = 0, 1, 3  # fields of /proc/PID/stat behind the command's closing bracket


class ProcessorTime(NamedTuple):
    """Nanoseconds for which threads ran, and for which they were ready to run but waited for a processor."""

    ran_ns: int
    waited_ns: int


def in_session(leader: int) -> list[int]:
    """Returns the processes of the session that `leader` leads, except zombies. Only `setsid` takes a process out of
    it."""
    return [pid for pid, fields in _all() if int(fields[_SESSION]) == leader and fields[_STATE] != _ZOMBIE]


def descendants(pid: int) -> list[int]:
    """Returns `pid`, the processes it started, those that they started, and so on."""
    children: dict[int, list[int]] = {}
    for one, fields in _all():
        children.setdefault(int(fields[_PARENT]), []).append(one)
    found = [pid]
    for one in found:
        found += children.get(one, ())
    return found


def stopped_children(pid: int) -> list[int]:
    """Returns the processes started by `pid` that are stopped (SIGSTOP)."""
    return [one for one, fields in _all() if int(fields[_PARENT]) == pid and fields[_STATE] == _STOPPED]


def processor_time(pids: Iterable[int]) -> ProcessorTime:
    """Returns the processor time of these processes, summed over the threads that they have now."""
    ran_ns = waited_ns = 0
    for pid in pids:
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - one call for each process, every second
                ran, waited, _ = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()
                ran_ns, waited_ns = ran_ns + int(ran), waited_ns + int(waited)
        except (OSError, ValueError):  # ended meanwhile, or a kernel without these statistics
            continue
    return ProcessorTime(ran_ns, waited_ns)


def kill_session(leader: int) -> None:
    """Sends SIGKILL to every process of the session, stopped ones included; to `leader` last: it may be the caller."""
    for pid in sorted(in_session(leader), key=lambda pid: pid == leader):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def ending_of(code: int) -> str:
    """Returns in words how a process ended, from the return code that `subprocess` gives."""
    return f"ended with exit code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"


def _all() -> Iterator[tuple[int, list[str]]]:
    if not _PROC.is_dir():
        return
    for name in os.listdir(_PROC):  # noqa: PTH208 - as above
        if name.isdecimal():
            try:
                yield int(name), Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue

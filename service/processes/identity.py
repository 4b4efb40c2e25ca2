"""Names a process, so that another process on the same machine can find out whether the named process has ended. Reads
from Linux which processes belong together, and how long they wait for a processor.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import socket
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

_PROC: Final = Path("/proc")
_ZOMBIE: Final = "Z"
_STOPPED: Final = "T"
_STATE, _PARENT, _SESSION, _STARTED = 0, 1, 3, 19  # fields of /proc/PID/stat after the command's closing bracket


class ProcessorTime(NamedTuple):
    """Nanoseconds for which threads ran, and for which they were ready to run but waited for a processor."""

    ran_ns: int
    waited_ns: int


def in_session(leader: int) -> list[int]:
    """Returns the processes of the session that `leader` leads, except zombies. Only `setsid` takes a process out of
    its session."""
    return [pid for pid, fields in _all() if int(fields[_SESSION]) == leader and fields[_STATE] != _ZOMBIE]


def descendants(pid: int) -> list[int]:
    """Returns `pid`, its child processes, their child processes, and so on."""
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
    """Sends SIGKILL to every process of the session, stopped ones included. `leader`, which may be the caller, comes
    last."""
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
        if name.isdecimal() and (fields := _fields(name)) is not None:
            yield int(name), fields


def _fields(pid: int | str) -> list[str] | None:
    """Returns the fields of /proc/PID/stat after the command's closing bracket; None if there is no such process."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


_IDENTITY: Final = re.compile(r"(?P<host>.+):(?P<pid>[1-9]\d{0,8}):(?P<started>\d+):(?P<machine>[0-9a-f]{12})")
_ENDED: Final = frozenset("ZX")  # a zombie runs no more; containers without an init process keep zombies for ever


def own_identity() -> str:
    """Returns "HOST:PID:START:MACHINE" of this process. START: the process's start in ticks since the machine's boot.
    MACHINE: a hash of the boot, the namespace of process ids and the host's name, because PID is unique only within
    these.

    On a system without /proc, a random word replaces START and MACHINE.
    """
    host, pid = socket.gethostname(), os.getpid()
    machine, found = _machine(host), _fields(pid)
    if machine is None or found is None:
        return f"{host}:{pid}:{secrets.token_hex(8)}"
    return f"{host}:{pid}:{found[_STARTED]}:{machine}"


def host_and_pid(identity: str) -> str:
    """Returns the part of an identity that people read, "HOST:PID"; the whole text if it is no identity."""
    found = _IDENTITY.fullmatch(identity)
    return identity if found is None else f"{found['host']}:{found['pid']}"


def has_ended(identity: str) -> bool:
    """Returns True if the process ran on this machine and has ended. Returns False if the process runs, or if its state
    is not known."""
    found = _IDENTITY.fullmatch(identity)
    if found is None or found["machine"] != _machine(socket.gethostname()):
        return False
    pid = int(found["pid"])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # a process of another user
        pass
    now = _fields(pid)
    return now is not None and (now[_STATE] in _ENDED or now[_STARTED] != found["started"])


def _machine(host: str) -> str | None:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text()
        namespace = (_PROC / "self/ns/pid").stat().st_ino
    except OSError:
        return None
    return sha256(f"{boot}{namespace} {host}".encode()).hexdigest()[:12]

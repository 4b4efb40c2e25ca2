"""Names a process so that another process on the same machine can find out whether it has ended."""

from __future__ import annotations

import os
import re
import secrets
import socket
from hashlib import sha256
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_IDENTITY: Final = re.compile(r"(?P<host>.+):(?P<pid>[1-9]\d{0,8}):(?P<started>\d+):(?P<machine>[0-9a-f]{12})")
_ENDED: Final = frozenset("ZX")  # a zombie runs no more; containers without an init process keep zombies for ever
_STATE, _STARTED = 0, 19  # fields of /proc/PID/stat behind the command's closing bracket


def own_identity() -> str:
    """Returns "HOST:PID:START:MACHINE" of this process. START: its start in ticks since the machine's boot. MACHINE
    stands for the boot, the namespace of the process ids and the host's name: only there PID means this process.

    A system without /proc gets a random word instead of the last two.
    """
    host, pid = socket.gethostname(), os.getpid()
    machine, found = _machine(host), _state_and_start(pid)
    if machine is None or found is None:
        return f"{host}:{pid}:{secrets.token_hex(8)}"
    return f"{host}:{pid}:{found[1]}:{machine}"


def host_and_pid(identity: str) -> str:
    """Returns the part of an identity that people read, "HOST:PID"; the whole text if it is no identity."""
    found = _IDENTITY.fullmatch(identity)
    return identity if found is None else f"{found['host']}:{found['pid']}"


def has_ended(identity: str) -> bool:
    """Returns True if the process ran on this machine and has ended. False: it runs, or we cannot know."""
    found = _IDENTITY.fullmatch(identity)
    if found is None or found["machine"] != _machine(socket.gethostname()):
        return False
    pid = int(found["pid"])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # of another user
        pass
    now = _state_and_start(pid)
    return now is not None and (now[0] in _ENDED or now[1] != found["started"])


def _machine(host: str) -> str | None:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text()
        namespace = (_PROC / "self/ns/pid").stat().st_ino
    except OSError:
        return None
    return sha256(f"{boot}{namespace} {host}".encode()).hexdigest()[:12]


def _state_and_start(pid: int) -> tuple[str, str] | None:
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[_STATE], fields[_STARTED]

"""The lifeline between a child and its supervisor: each process notices when its peer is gone or unresponsive.

A pair of sockets connects the two, and both send a byte a second. The kernel closes a process's socket when the process
ends, also on kill -9. If the supervisor is gone or unresponsive, its children end themselves. Whoever started the
supervisor (systemd, a container runtime, a person) then starts all of them again. If a child is unresponsive, its
supervisor ends it and starts it again.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Final

from service.processes.identity import kill_session, stopped_children
from service.processes.waiting import SilenceMeter

LIFELINE: Final = "TXNSCOPE_LIFELINE"
"""Environment variable with the number of an inherited descriptor: the child's end of the sockets."""

GRACE_S: Final = 5.0
SUPERVISOR_SILENT_S: Final = 20.0
BEAT_EVERY_S: Final = 1.0

_BEAT: Final = b"."


class Ours:
    """The supervisor's end of the lifeline to one process. A child that is started again gets a new one."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)

    @property
    def descriptor(self) -> int:
        """The descriptor of the child's end, which the child has to inherit."""
        return self._theirs.fileno()

    def was_inherited(self) -> None:
        """Closes the supervisor's copy of the child's end, so that only the child has it. To be called after the child
        has inherited the descriptor."""
        self._theirs.close()

    def beat(self) -> None:
        send(self._ours)

    def heard(self) -> bool:
        """Returns whether the child sent anything since the last call."""
        try:
            return bool(self._ours.recv(1 << 16))
        except OSError:
            return False

    def close(self) -> None:
        self._theirs.close()
        self._ours.close()


def hold() -> Callable[[], None]:
    """Makes this process end with its supervisor. Returns the function to call about once a second to send a beat.

    When the supervisor is gone or unresponsive, this process sends itself SIGTERM, and 5 s later kills itself and every
    process that it started. Before the SIGTERM, this process kills an unresponsive supervisor and the supervisor's
    stopped children. Does nothing if the variable LIFELINE is not set: the process was started by hand.
    """
    number = os.environ.pop(LIFELINE, "")
    if not number:
        return lambda: None
    ours = socket.socket(fileno=int(number))
    ours.set_inheritable(False)
    ours.setblocking(False)
    supervisor = os.getppid()
    threading.Thread(target=_watch, args=(ours, supervisor), name="lifeline", daemon=True).start()
    return lambda: send(ours)


def send(beats: socket.socket) -> None:
    """Sends a beat. Ignores errors, which mean that the other side does not read (a full buffer) or is gone (a closed
    socket)."""
    with contextlib.suppress(OSError):
        beats.send(_BEAT)


def _watch(ours: socket.socket, supervisor: int) -> None:
    if not _is_closed(ours, supervisor):
        # the supervisor is stopped or stuck: if one of its children died now, nobody would notice
        stopped_too = stopped_children(supervisor)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(supervisor, signal.SIGKILL)
        for sibling in stopped_too:  # a stopped sibling cannot end itself, and may hold a port
            kill_session(sibling)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    kill_session(os.getpid())  # otherwise Spark's JVM runs on for a while, beside the next one
    os._exit(1)


def _is_closed(ours: socket.socket, supervisor: int) -> bool:
    """Waits for the end of the supervisor. Returns True if the supervisor is gone, False if it was unresponsive for too
    long."""
    silence = SilenceMeter(lambda: [supervisor])
    while silence.seconds < SUPERVISOR_SILENT_S:
        readable, _, _ = select.select([ours], [], [], BEAT_EVERY_S)
        if not readable:
            silence.missed()
            continue
        silence.heard()
        with contextlib.suppress(BlockingIOError):
            try:
                if not ours.recv(1 << 16):
                    return True
            except ConnectionError:
                return True
    return False

"""A child's and its supervisor's hold on each other: each notices when the other is gone, and when it is silent.

Between them is a pair of connected sockets, which the kernel closes with its owner, also on kill -9. Both send a byte a
second over it. A supervisor that is gone or silent ends its children: whoever started it (systemd, a container's
runtime, a person) starts all of them again. A child that is silent is ended by its supervisor, and started again.
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

from service.processes.linux import kill_session, stopped_children
from service.processes.working_time import SilenceMeter

LIFELINE: Final = "TXNSCOPE_LIFELINE"
"""Environment variable with the number of an inherited descriptor: the child's end of the sockets."""

GRACE_S: Final = 5.0
SUPERVISOR_SILENT_S: Final = 20.0
BEAT_EVERY_S: Final = 1.0

_BEAT: Final = b"."


class Ours:
    """The supervisor's end, for one life of a child."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)

    @property
    def descriptor(self) -> int:
        """To be inherited by the child."""
        return self._theirs.fileno()

    def was_inherited(self) -> None:
        """From now on only the child holds its end."""
        self._theirs.close()

    def beat(self) -> None:
        send(self._ours)

    def heard(self) -> bool:
        """Whether the child sent anything since the last call."""
        try:
            return bool(self._ours.recv(1 << 16))
        except OSError:
            return False

    def close(self) -> None:
        self._theirs.close()
        self._ours.close()


def hold() -> Callable[[], None]:
    """Ends this process with its supervisor from now on. Returns what to call about once a second to say that we live.

    At the end: SIGTERM to ourselves, and 5 s later an end without ceremony, also of all that we started. Does nothing
    where the variable is not set: the process was started by hand.
    """
    number = os.environ.pop(LIFELINE, "")
    if not number:
        return _nobody_listens
    ours = socket.socket(fileno=int(number))
    ours.set_inheritable(False)
    ours.setblocking(False)
    supervisor = os.getppid()
    threading.Thread(target=_watch, args=(ours, supervisor), name="lifeline", daemon=True).start()
    return lambda: send(ours)


def send(beats: socket.socket) -> None:
    """A full buffer means that the other side reads nothing: then it knows enough. So does a closed one."""
    with contextlib.suppress(OSError):
        beats.send(_BEAT)


def _nobody_listens() -> None:
    return


def _watch(ours: socket.socket, supervisor: int) -> None:
    if not _is_closed(ours, supervisor):
        # it is stopped or stuck: if a process of ours died now, nobody would notice
        stopped_too = stopped_children(supervisor)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(supervisor, signal.SIGKILL)
        for sibling in stopped_too:  # it cannot end itself, and may hold a port
            kill_session(sibling)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    kill_session(os.getpid())  # Spark's JVM would work on for a while, beside the one that is started next
    os._exit(1)


def _is_closed(ours: socket.socket, supervisor: int) -> bool:
    """Waits until the supervisor is gone (True), or silent for too long (False)."""
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

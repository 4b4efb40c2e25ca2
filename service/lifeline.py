"""A child's hold on its supervisor: when the supervisor is gone, however it went, the child ends too."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import Final

PARENT_PIPE: Final = "TXNSCOPE_PARENT_PIPE"
"""Environment variable with the number of an inherited descriptor: the reading end of a pipe that nobody writes to and
that only the supervisor holds open for writing. The kernel closes it with the supervisor, also on kill -9."""

GRACE_S: Final = 5.0


def end_with_parent() -> None:
    """Watch the pipe from now on: at its end SIGTERM to ourselves, and 5 s later an end without ceremony.

    Does nothing where the variable is not set: the process was started by hand.
    """
    number = os.environ.pop(PARENT_PIPE, "")
    if not number:
        return
    descriptor = int(number)
    os.set_inheritable(descriptor, False)
    threading.Thread(target=_watch, args=(descriptor,), name="lifeline", daemon=True).start()


def _watch(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        os.read(descriptor, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os._exit(1)

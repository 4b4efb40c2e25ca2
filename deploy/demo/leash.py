"""Children that end with us, however we end: also at `kill -9`.

A child runs under a keeper, `python -m deploy.demo.leash FD command…`, that holds the reading end of a pipe. Only we
hold the writing end: when we are gone the keeper reads its end, and stops the child.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]
GRACE_S = 8.0

# what the keeper is sent, because it cannot catch what it passes on
_PASSED_ON = {
    signal.SIGTERM: signal.SIGTERM,
    signal.SIGINT: signal.SIGINT,
    signal.SIGUSR1: signal.SIGKILL,
    signal.SIGUSR2: signal.SIGSTOP,
    signal.SIGCONT: signal.SIGCONT,
}
_SENT_AS = {passed_on: sent for sent, passed_on in _PASSED_ON.items()}


class Leashed:
    """A child on a leash, in a session of its own so that a Ctrl-C of the terminal does not reach it first."""

    def __init__(self, command: list[str], output: IO[bytes], environment: dict[str, str] | None = None) -> None:
        held, self._leash = os.pipe()
        try:
            self._keeper = subprocess.Popen(
                [sys.executable, "-m", "deploy.demo.leash", str(held), *command],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(held,),
            )
        finally:
            os.close(held)

    def poll(self) -> int | None:
        """The child's exit code (128 + signal for a killed one); None while it runs."""
        return self._keeper.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send SIGTERM, SIGINT, SIGKILL, SIGSTOP or SIGCONT to the child; nothing if it ended."""
        with contextlib.suppress(ProcessLookupError):
            self._keeper.send_signal(_SENT_AS[number])

    def stop(self, timeout_s: float = 20.0) -> int:
        """SIGTERM, and SIGKILL after `timeout_s`; the child's exit code."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        return self._finish(timeout_s)

    def kill(self) -> int:
        """SIGKILL; the child's exit code."""
        self.signal(signal.SIGKILL)
        return self._finish(10.0)

    def _finish(self, timeout_s: float) -> int:
        try:
            self._keeper.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self._keeper.wait(10)
        if self._leash >= 0:
            os.close(self._leash)
            self._leash = -1
        return self._keeper.returncode


def keep(held: int, command: list[str]) -> int:
    """Run `command` until it ends or the pipe does; its exit code."""
    child = subprocess.Popen(command)
    for sent in _PASSED_ON:
        signal.signal(sent, lambda number, _: child.send_signal(_PASSED_ON[signal.Signals(number)]))
    threading.Thread(target=_end_with_pipe, args=(held, child), daemon=True).start()
    code = child.wait()
    return code if code >= 0 else 128 - code


def _end_with_pipe(held: int, child: subprocess.Popen[bytes]) -> None:
    while os.read(held, 1):
        pass
    child.send_signal(signal.SIGCONT)
    child.terminate()
    try:
        child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()


if __name__ == "__main__":
    sys.exit(keep(int(sys.argv[1]), sys.argv[2:]))

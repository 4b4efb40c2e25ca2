"""Runs child processes that end with this process, even if `kill -9` ends this process. Also handles the demo's
signals: the first Ctrl-C ends the demo; later ones are ignored, so that the demo ends cleanly.

A child runs under a keeper, `python -m deploy.demo.child_process FD command…`, that holds the reading end of a pipe.
Only this process holds the writing end. When this process is gone, the keeper reads the end of the pipe and stops the
child.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, NoReturn

from service.processes.identity import stopped_children


def interrupt_on_signals() -> None:
    """Makes SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does. SIGHUP comes when the terminal is closed."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)


def ignore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


ROOT = Path(__file__).parents[2]
GRACE_S = 5.0
"""Seconds between the SIGTERM and the SIGKILL that the keeper sends to the child after this process has ended."""

# signal to the keeper: signal to the child. They differ if the keeper could not catch the child's signal
_FORWARDED = {
    signal.SIGTERM: signal.SIGTERM,
    signal.SIGINT: signal.SIGINT,
    signal.SIGUSR1: signal.SIGKILL,
    signal.SIGUSR2: signal.SIGSTOP,
    signal.SIGCONT: signal.SIGCONT,
}
_SENT_AS = {passed_on: sent for sent, passed_on in _FORWARDED.items()}


class ChildProcess:
    """A child process that ends with this process. The child has a session of its own, so that a Ctrl-C in the terminal
    reaches this process, and not the child."""

    def __init__(self, command: list[str], output: IO[bytes], environment: dict[str, str] | None = None) -> None:
        reading_end, self._writing_end = os.pipe()
        try:
            self._keeper = subprocess.Popen(
                [sys.executable, "-m", "deploy.demo.child_process", str(reading_end), *command],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(reading_end,),
            )
        finally:
            os.close(reading_end)

    def poll(self) -> int | None:
        """Returns the child's exit code (128 + signal if a signal ended it); None while the child runs."""
        return self._keeper.poll()

    def signal(self, number: signal.Signals) -> None:
        """Sends SIGTERM, SIGINT, SIGKILL, SIGSTOP or SIGCONT to the child. Does nothing if the child has ended."""
        with contextlib.suppress(ProcessLookupError):
            self._keeper.send_signal(_SENT_AS[number])

    def pause(self, timeout_s: float = 20.0) -> None:
        """Sends SIGSTOP. Returns once the child is frozen or has ended, or after `timeout_s`."""
        give_up = time.monotonic() + timeout_s
        self.signal(signal.SIGSTOP)
        while self.poll() is None and not stopped_children(self._keeper.pid) and time.monotonic() < give_up:
            time.sleep(0.01)

    def stop(self, timeout_s: float = 20.0) -> int:
        """Resumes the child if it is frozen, and sends SIGTERM; if the child still runs after `timeout_s`, SIGKILL.
        Returns the child's exit code."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        return self._finish(timeout_s)

    def kill(self) -> int:
        """Sends SIGKILL. Returns the child's exit code."""
        self.signal(signal.SIGKILL)
        return self._finish(10.0)

    def _finish(self, timeout_s: float) -> int:
        try:
            self._keeper.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self._keeper.wait(10)
        if self._writing_end >= 0:
            os.close(self._writing_end)
            self._writing_end = -1
        return self._keeper.returncode


def run_child(reading_end: int, command: list[str]) -> int:
    """Runs `command` until it ends. If the pipe is closed before then, stops the command: by SIGTERM, and after GRACE_S
    by SIGKILL. Returns the command's exit code (128 + signal if a signal ended it).

    The keeper has one thread and reads signals from a descriptor, because Python would run a handler only in the main
    thread, and only after this thread's wait for the child is over.
    """
    signals = _signal_descriptor()
    child = subprocess.Popen(command)
    waiting = selectors.DefaultSelector()
    waiting.register(reading_end, selectors.EVENT_READ)
    waiting.register(signals, selectors.EVENT_READ)
    kill_at = math.inf
    while (code := child.poll()) is None:
        ready = {
            key.fd for key, _ in waiting.select(None if kill_at == math.inf else max(0.0, kill_at - time.monotonic()))
        }
        if signals in ready:
            for number in os.read(signals, 64):
                if number in _FORWARDED:
                    child.send_signal(_FORWARDED[signal.Signals(number)])
        if reading_end in ready:
            waiting.unregister(reading_end)
            child.send_signal(signal.SIGCONT)
            child.terminate()
            kill_at = time.monotonic() + GRACE_S
        if time.monotonic() >= kill_at:
            child.kill()
            kill_at = math.inf
    return code if code >= 0 else 128 - code


def _signal_descriptor() -> int:
    """Returns a descriptor from which one byte can be read for every signal to pass on, and for every SIGCHLD of the
    child."""
    signals, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    for number in (*_FORWARDED, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)  # no byte is written without a handler; exec resets it for the child
    return signals


if __name__ == "__main__":
    sys.exit(run_child(int(sys.argv[1]), sys.argv[2:]))

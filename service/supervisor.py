"""Keeps child processes alive: starts them, shows what they say, starts dead ones again, ends them all together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Final

from service.lifeline import PARENT_PIPE

CONFIGURATION: Final = 2
"""Exit code of a child whose configuration is wrong: starting it again would not help."""

_TICK_S = 0.1
_KILL_WAIT_S = 3.0


@dataclass(frozen=True, slots=True)
class ChildCommand:
    """`name` goes before each line the child prints; `environment` comes on top of our own."""

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pauses:
    """Seconds: before starting a dead child again (doubling), how long a life resets that, and from TERM to KILL."""

    first_s: float = 1.0
    longest_s: float = 30.0
    steady_after_s: float = 60.0
    to_kill_s: float = 12.0


class Supervisor:
    """Runs in the main thread: SIGTERM and SIGINT are taken over while `run` runs."""

    def __init__(self, commands: Sequence[ChildCommand], pauses: Pauses = Pauses()) -> None:
        self._pauses = pauses
        self._stopping = False
        self._out = _Output(max(len(command.name) for command in commands))
        self._pipe, self._held_open = os.pipe()
        self._children = [_Child(command, self._pipe, self._out) for command in commands]

    def run(self) -> int:
        """Until SIGTERM or SIGINT (0), or until a child ends with CONFIGURATION (2). No child outlives the call."""
        taken = {number: signal.signal(number, self._stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            return self._watch()
        finally:
            self._end()
            for number, handler in taken.items():
                signal.signal(number, handler)

    def _stop(self, *_: object) -> None:
        self._stopping = True  # a plain name: a lock taken in a signal handler may be held by what it interrupted

    def _watch(self) -> int:
        for child in self._children:
            child.start(self._pauses.first_s)
        while not self._stopping:
            now = time.monotonic()
            for child in self._children:
                if child.start_at is not None:
                    if now >= child.start_at:
                        child.start_again()
                elif (code := child.process.poll()) is not None and not self._stopping:
                    if code == CONFIGURATION:
                        self._out.say(f"{child.name} cannot run with this configuration: ending")
                        return CONFIGURATION
                    self._schedule(child, code, now)
            time.sleep(_TICK_S)
        return 0

    def _schedule(self, child: _Child, code: int, now: float) -> None:
        if now - child.started >= self._pauses.steady_after_s:
            child.pause_s = self._pauses.first_s
        child.start_at = now + child.pause_s
        self._out.say(f"{child.name} {_ending(code)}, starting it again in {child.pause_s:g} s")
        child.pause_s = min(child.pause_s * 2, self._pauses.longest_s)

    def _end(self) -> None:
        """TERM to all, KILL to what is left, then to what they started and left behind."""
        started = [child for child in self._children if child.is_started]
        for child in started:
            if child.process.poll() is None:
                child.process.terminate()
            else:
                child.kill()
        _wait(started, self._pauses.to_kill_s)
        for child in started:
            if not child.is_gone():
                self._out.say(f"{child.name} did not end in time: killed")
                child.kill()
        _wait(started, _KILL_WAIT_S)
        for child in started:
            child.pump.join(timeout=1.0)
        for descriptor in (self._pipe, self._held_open):
            os.close(descriptor)


class _Child:
    """One child and its successive processes. Each leads a process group, so Ctrl-C on a terminal reaches only us."""

    process: subprocess.Popen[bytes]
    pump: threading.Thread

    def __init__(self, command: ChildCommand, pipe: int, out: _Output) -> None:
        self.name = command.name
        self._arguments, self._environment = list(command.arguments), dict(command.environment)
        self._pipe, self._out = pipe, out
        self.is_started = False
        self.started = 0.0
        self.pause_s = 0.0
        self.start_at: float | None = None

    def start(self, pause_s: float) -> None:
        self.pause_s = pause_s
        self._spawn()

    def start_again(self) -> None:
        """What the dead process left behind in its group ends first."""
        self.kill()
        self._spawn()

    def is_gone(self) -> bool:
        """The process and everything it started (as far as that stayed in its group)."""
        if self.process.poll() is None:
            return False
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return True
        return False

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def _spawn(self) -> None:
        self.start_at = None
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            self._arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(self._pipe,),
            env=os.environ | self._environment | {PARENT_PIPE: str(self._pipe), "PYTHONUNBUFFERED": "1"},
            process_group=0,
        )
        self.is_started = True
        assert self.process.stdout is not None
        self.pump = threading.Thread(target=self._out.copy, args=(self.name, self.process.stdout), daemon=True)
        self.pump.start()


class _Output:
    """Whole lines of several children on one stderr."""

    def __init__(self, width: int) -> None:
        self._width = max(width, len("watch"))
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        self._write("watch", text.encode())

    def copy(self, name: str, source: IO[bytes]) -> None:
        """Until the last one who holds the pipe has closed it."""
        with source:
            for line in source:
                self._write(name, line.rstrip(b"\r\n"))

    def _write(self, name: str, line: bytes) -> None:
        # nobody reads our stderr any more: the children must not notice, a full pipe would stop them
        with self._lock, contextlib.suppress(OSError, ValueError):
            sys.stderr.buffer.write(name.ljust(self._width).encode() + b" | " + line + b"\n")
            sys.stderr.buffer.flush()


def _wait(children: Sequence[_Child], seconds: float) -> None:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up and not all(child.is_gone() for child in children):
        time.sleep(_TICK_S / 2)


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was killed by {signal.Signals(-code).name}"

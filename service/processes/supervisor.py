"""Keeps child processes alive: starts them, shows their output, restarts dead and unresponsive ones, ends them all."""

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

from service.processes.identity import ending_of, in_session, kill_session
from service.processes.lifeline import BEAT_EVERY_S, LIFELINE, Ours
from service.processes.waiting import Backoff, SilenceMeter

CONFIGURATION: Final = 2
"""Exit code of a child whose configuration is wrong: starting it again would not help."""

_TICK_S = 0.1
_KILL_WAIT_S = 3.0


@dataclass(frozen=True, slots=True)
class Silence:
    """Maximum times (s) for which a child may send no beat: `at_start_s` until the first beat, `later_s` after the
    first beat."""

    at_start_s: float = 120.0
    later_s: float = 15.0


@dataclass(frozen=True, slots=True)
class ChildCommand:
    """The command of a child. `name` goes before each line that the child prints. `environment` is added to the
    supervisor's own environment.

    `silence` is None for a child that sends no beats over its lifeline. `final`: exit codes that end the supervisor.
    `final_at_start`: exit codes that end the supervisor only if the child's first process ends with one of them,
    because then the child has never worked.
    """

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    silence: Silence | None = None
    final: frozenset[int] = frozenset({CONFIGURATION})
    final_at_start: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Pauses:
    """The supervisor's pauses in seconds.

    `first_s` to `longest_s` (doubling): before a dead child is started again. `steady_after_s`: how long a child must
    run to reset this pause. `to_kill_s`: from TERM to KILL.

    The longest pause and a start of Spark (up to 20 s) together stay within 30 s. So even a child that was killed five
    times in a row, each time within `steady_after_s`, is back within the time that docs/reliability.md promises.
    """

    first_s: float = 1.0
    longest_s: float = 8.0
    steady_after_s: float = 20.0
    to_kill_s: float = 12.0


class Supervisor:
    """Starts and watches children, from the main thread: `run` takes over SIGTERM and SIGINT while it runs.

    `name` goes before the supervisor's own lines. Unless `is_piped`, children write directly to the supervisor's stdout
    and stderr, unchanged.
    """

    def __init__(
        self, commands: Sequence[ChildCommand], pauses: Pauses = Pauses(), *, name: str = "watch", is_piped: bool = True
    ) -> None:
        self._pauses = pauses
        self._stopping = False
        self._out = _Output(name, max(len(command.name) for command in commands))
        self._children = [_Child(command, pauses, self._out, is_piped=is_piped) for command in commands]

    def run(self) -> int:
        """Runs until SIGTERM or SIGINT, then returns 0; or until a child ends with a final code (by default only
        CONFIGURATION), then returns this code. No child outlives the call."""
        taken = {number: signal.signal(number, self._stop) for number in (signal.SIGTERM, signal.SIGINT)}
        # children take a stopped supervisor for a dead one
        taken[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        try:
            return self._watch()
        finally:
            self._end()
            for number, handler in taken.items():
                signal.signal(number, handler)

    def _stop(self, *_: object) -> None:
        self._stopping = True  # no lock: the code that the signal interrupted may hold it

    def _watch(self) -> int:
        for child in self._children:
            child.start()
        beat_at = 0.0
        while not self._stopping:
            now = time.monotonic()
            is_beat = now >= beat_at
            if is_beat:
                beat_at = now + BEAT_EVERY_S
            for child in self._children:
                if child.start_at is not None:
                    if now >= child.start_at:
                        child.kill()  # processes that the dead one left behind
                        child.start()
                elif (code := child.process.poll()) is not None and not self._stopping:
                    if self._is_final(child, code):
                        return code
                    self._schedule(child, ending_of(code), now)
                elif is_beat:
                    self._listen(child, now)
            time.sleep(_TICK_S)
        return 0

    def _is_final(self, child: _Child, code: int) -> bool:
        is_final = child.is_final(code)
        if is_final and code == CONFIGURATION:
            self._out.say(f"{child.name} cannot run with this configuration: ending")
        return is_final

    def _listen(self, child: _Child, now: float) -> None:
        child.beat()
        if child.is_silent():
            child.kill()
            self._schedule(child, f"did not answer for {child.silent_s:.0f} s and was killed", now)

    def _schedule(self, child: _Child, ending: str, now: float) -> None:
        """Schedules the restart of a child. Kills at once the processes that the child's process left behind: they hold
        ports and memory, and nothing watches them."""
        child.kill()
        if now - child.started >= self._pauses.steady_after_s:
            child.backoff.reset()
        pause_s = child.backoff.next_s()
        child.start_at = now + pause_s
        self._out.say(f"{child.name} {ending}; starting it again in {pause_s:g} s")

    def _end(self) -> None:
        """Sends TERM to all children, then KILL to those that are left and to everything that they started."""
        started = [child for child in self._children if child.lives]
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
            child.close()


class _Child:
    """One child of the supervisor. If the child's process ends, a new process takes its place. Each process leads a
    session of its own, so that Ctrl-C on a terminal reaches only the supervisor. Through the session, the supervisor
    also finds everything that a process started, whatever process groups Spark makes."""

    process: subprocess.Popen[bytes]

    def __init__(self, command: ChildCommand, pauses: Pauses, out: _Output, *, is_piped: bool) -> None:
        self.name, self._command = command.name, command
        self._out, self._is_piped = out, is_piped
        self._pump: threading.Thread | None = None
        self._lifeline: Ours | None = None
        self.lives = 0
        self.started = 0.0
        self.backoff = Backoff(pauses.first_s, pauses.longest_s)
        self.start_at: float | None = None

    @property
    def silent_s(self) -> float:
        return self._meter.seconds

    def is_final(self, code: int) -> bool:
        return code in self._command.final or (self.lives == 1 and code in self._command.final_at_start)

    def is_gone(self) -> bool:
        """Returns whether the process and everything that it started have ended."""
        return self.process.poll() is not None and not in_session(self.process.pid)

    def kill(self) -> None:
        self.process.kill()
        kill_session(self.process.pid)

    def beat(self) -> None:
        assert self._lifeline is not None
        self._lifeline.beat()

    def is_silent(self) -> bool:
        """Returns whether the child has sent nothing for longer than its `silence` allows. To be called once a
        second."""
        assert self._lifeline is not None
        if self._lifeline.heard():
            self._has_spoken = True
            self._meter.heard()
            return False
        silent_s, silence = self._meter.missed(), self._command.silence
        if silence is None:
            return False
        return silent_s > (silence.later_s if self._has_spoken else silence.at_start_s)

    def close(self) -> None:
        if self._pump is not None:
            self._pump.join(timeout=1.0)
        if self._lifeline is not None:
            self._lifeline.close()

    def start(self) -> None:
        if self._lifeline is not None:
            self._lifeline.close()
        self._lifeline = lifeline = Ours()
        self.start_at = None
        self.started = time.monotonic()
        self.lives += 1
        self.process = process = subprocess.Popen(
            self._command.arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if self._is_piped else None,
            stderr=subprocess.STDOUT if self._is_piped else None,
            pass_fds=(lifeline.descriptor,),
            env=os.environ | self._command.environment | {LIFELINE: str(lifeline.descriptor), "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        lifeline.was_inherited()
        self._meter, self._has_spoken = SilenceMeter(lambda: in_session(process.pid)), False
        if process.stdout is not None:
            self._pump = threading.Thread(target=self._out.copy, args=(self.name, process.stdout), daemon=True)
            self._pump.start()


class _Output:
    """Writes the lines of several children and of the supervisor to one stderr, each line as a whole. `name`: the
    prefix of the supervisor's own lines."""

    def __init__(self, name: str, width: int) -> None:
        self._name, self._width = name, max(width, len(name))
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        self._write(self._name, text.encode())

    def copy(self, name: str, source: IO[bytes]) -> None:
        """Copies the lines of a child's output until the last process that has the pipe closes the pipe."""
        with source:
            for line in source:
                self._write(name, line.rstrip(b"\r\n"))

    def _write(self, name: str, line: bytes) -> None:
        # if nobody reads our stderr any more, still read the children's output: a full pipe would stop them
        with self._lock, contextlib.suppress(OSError, ValueError):
            sys.stderr.buffer.write(name.ljust(self._width).encode() + b" | " + line + b"\n")
            sys.stderr.buffer.flush()


def _wait(children: Sequence[_Child], seconds: float) -> None:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up and not all(child.is_gone() for child in children):
        time.sleep(_TICK_S / 2)

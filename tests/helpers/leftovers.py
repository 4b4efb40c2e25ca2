"""Ends every process that a run of the tests started, however the run ends.

The run has a mark in its environment, which all its processes inherit, also those in sessions of their own. A guard,
itself without the mark, waits for the end of the run (a pipe that closes, even at SIGKILL) and then kills what has it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from signal import SIGKILL
from uuid import uuid4

from tests.helpers.paths import ROOT
from tests.helpers.processes import command_of, send, still_running, with_environment

# no TXNSCOPE_ at its start: tests take variables with that prefix out of the environment of commands
MARK = "MARK_OF_TEST_RUN"
_LIMIT_S = 20


class Guard:
    """A process that outlives this one and ends what this one started."""

    def __init__(self) -> None:
        mark = uuid4().hex
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.leftovers", mark],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        os.environ[MARK] = mark

    def end(self) -> list[str]:
        """Ends the processes that are left. Returns their command lines."""
        os.environ.pop(MARK, None)
        ended, _ = self._process.communicate("the run has ended\n", timeout=2 * _LIMIT_S)
        return [line for line in ended.splitlines() if line]


def end_marked(mark: str) -> list[str]:
    """Kills every process with this mark, and what these start meanwhile. Returns their command lines."""
    ended: list[str] = []
    until = time.monotonic() + _LIMIT_S
    while (left := with_environment(MARK, mark)) and time.monotonic() < until:
        ended += [f"{one.pid}: {command_of(one)[:160]}" for one in left]
        send(SIGKILL, left)
        while still_running(left) and time.monotonic() < until:
            time.sleep(0.02)
    return ended


if __name__ == "__main__":
    sys.stdin.readline()
    print(*end_marked(sys.argv[1]), sep="\n", flush=True)  # noqa: T201

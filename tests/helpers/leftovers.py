"""Ends every process that a run of the tests started, however the run ends.

The run sets a mark in its environment. All its processes inherit the mark, even in sessions of their own. A guard
process without the mark waits for the end of the run: it reads a pipe, which closes even after SIGKILL. The guard then
kills all processes with the mark.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from signal import SIGKILL
from uuid import uuid4

from tests.helpers.paths import ROOT
from tests.helpers.processes import command_of, send, still_running, with_environment

# not prefixed with TXNSCOPE_, because tests remove such variables from the environment of commands
MARK = "MARK_OF_TEST_RUN"
_LIMIT_S = 20


class Guard:
    """A guard process. After `end`, or once this process has ended, the guard kills all processes that this process has
    started since the guard began, and their descendants."""

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
        """Kills the processes that the run has left. Returns their process ids and command lines."""
        os.environ.pop(MARK, None)
        ended, _ = self._process.communicate("the run has ended\n", timeout=2 * _LIMIT_S)
        return [line for line in ended.splitlines() if line]


def end_marked(mark: str) -> list[str]:
    """Kills all processes with this mark, again and again until none is left or a time limit is reached. Returns the
    process ids and command lines of the killed processes."""
    ended: list[str] = []
    until = time.monotonic() + _LIMIT_S
    while (left := with_environment(MARK, mark)) and time.monotonic() < until:
        ended += [f"{process.pid}: {command_of(process)[:160]}" for process in left]
        send(SIGKILL, left)
        while still_running(left) and time.monotonic() < until:
            time.sleep(0.02)
    return ended


if __name__ == "__main__":
    sys.stdin.readline()
    ended_here = end_marked(sys.argv[1])
    with suppress(BrokenPipeError):  # the run itself was killed
        print(*ended_here, sep="\n", flush=True)  # noqa: T201

"""Runs a `txnscope` command as a process, with all processes that it starts."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from tests.benchmarks.process_tree import ProcessTree
from tests.helpers.hosts import Host
from tests.helpers.paths import ROOT
from tests.helpers.processes import send
from tests.helpers.waiting import LIMIT_S, wait_until

FIRST_READ, STANDS_BY = "first read of the transaction log", "standing by"
"""Parts of log lines of `ingest`. Lines with FIRST_READ report the progress of the first read; the first such line is
written when a batch is stored. A line with STANDS_BY reports that the process waits for the lease."""
PLANNER = "python_streamin"
"""The name of planner processes, as Linux truncates it."""


class Program:
    """A running command. `said`: (seconds since the start, line) of each line on stderr."""

    def __init__(self, command: str, *arguments: str, host: Host | None = None) -> None:
        self.said: list[tuple[float, str]] = []
        self.began = time.monotonic()
        self.tree = ProcessTree()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "service.cli", command, *arguments],
            cwd=ROOT,
            env=self.tree.environment | (host.environment if host else {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def elapsed_s(self) -> float:
        return time.monotonic() - self.began

    def wait_until_said(self, text: str) -> None:
        wait_until(self._all_said, lambda said: text in said, repr(text))

    def last_words(self) -> str:
        return "\n".join(line for _, line in self.said[-20:])

    def stop(self) -> None:
        """Ends the command by SIGTERM. If the command does not end within LIMIT_S, kills all its processes."""
        self._process.terminate()
        try:
            self._process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._listener.join(5)

    def kill(self) -> None:
        """Kills all processes of the command at once, as the failure of a host does."""
        self.tree.kill()
        self._process.wait(LIMIT_S)

    def freeze(self) -> None:
        """Freezes all processes that the supervisor of the command has started. The supervisor kills them 15 s
        later."""
        send(signal.SIGSTOP, self.tree.processes()[1:])

    def freeze_planners(self) -> None:
        send(signal.SIGSTOP, [process for process in self.tree.processes() if process.name() == PLANNER])

    def _all_said(self) -> str:
        return "\n".join(line for _, line in self.said)

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self.said.append((self.elapsed_s(), line.rstrip()))


@contextmanager
def ingesting(bootstrap: str, store: str, cluster: str, *more: str, host: Host | None = None) -> Iterator[Program]:
    """Runs `txnscope ingest` with `more` arguments, on `host` (default: this host). Kills the command at the end of the
    block."""
    with TemporaryDirectory(prefix="txnscope-bench-", ignore_cleanup_errors=True) as folder:
        where = ["--bootstrap-servers", bootstrap, "--cluster", cluster, "--store", store]
        program = Program("ingest", *where, "--checkpoint", folder, *more, host=host)
        try:
            yield program
        finally:
            program.kill()

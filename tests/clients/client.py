"""Runs a process that uses a client library. The process prints READY when it has started. Each line on its standard
input is a command, after which the process prints DONE."""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final

from tests.helpers.waiting import LIMIT_S

READY: Final = "ready"
COMMIT: Final = "commit"
ABORT: Final = "abort"
LEAVE_OPEN: Final = "open"
"""The command that begins a transaction, writes to it, and leaves it open."""
LATE: Final = "late"
"""The command that commits a transaction after its timeout. The library has to refuse the commit. The application then
starts a new producer under the same id."""
DONE: Final = "done"


class Client:
    """Controls the process: `with Client(command, log) as client: client.do(COMMIT)`. The process ends when its
    standard input ends, even if the tests are killed."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command, self._log = list(command), log
        self._process: subprocess.Popen[str] | None = None
        self._said: queue.Queue[str | None] = queue.Queue()

    def start(self) -> None:
        """Starts the process, without waiting for its first line."""
        self._said = queue.Queue()
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        threading.Thread(target=_read, args=(self._process.stdout, self._said), daemon=True).start()

    def wait_for(self, line: str) -> None:
        """Waits at most LIMIT_S for the next line of the process. Asserts that it equals `line`."""
        try:
            said = self._said.get(timeout=LIMIT_S)
        except queue.Empty:
            said = None
        assert said == line, (
            f"the process answered {said!r} instead of {line!r}; {self._log} ends:\n{self._log.read_text()[-3000:]}"
        )

    def do(self, *commands: str) -> None:
        """Sends the commands one after another, and waits for the answer to each."""
        for command in commands:
            self._send(command)
            self.wait_for(DONE)

    def do_last(self, command: str) -> None:
        """Sends a command that ends the process."""
        self._send(command)
        assert self._process is not None
        self._process.wait(LIMIT_S)

    def _send(self, command: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._end(subprocess.Popen.kill)

    def stop(self) -> None:
        """Closes the standard input of the process, and waits until the process ends."""
        self._end(lambda _: None)

    def _end(self, end: Callable[[subprocess.Popen[str]], None]) -> None:
        if self._process is not None:
            end(self._process)
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(LIMIT_S)

    def __enter__(self) -> Client:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def _read(output: IO[str], said: queue.Queue[str | None]) -> None:
    with output:
        for line in output:
            said.put(line.rstrip("\n"))
    said.put(None)

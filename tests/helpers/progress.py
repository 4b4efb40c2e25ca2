"""Prints a line every half minute: how many tests are done, which files are running, and for how long."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

EVERY_S = 30.0


class Progress:
    """Counts finished tests and files. Under pytest-xdist, counts those of all workers."""

    def __init__(self) -> None:
        self._left: Counter[str] = Counter()
        self._all = 0
        self._done = 0
        self._running: dict[str, float] = {}

    def collect(self, ids: Iterable[str]) -> None:
        """Sets the tests of the run. Under pytest-xdist, `collect` is called for each worker, with the same tests.
        After a test has started, calls are ignored."""
        if not self._done and not self._running:
            self._left = Counter(map(_file, ids))
            self._all = self._left.total()

    def start(self, test: str, now_s: float) -> None:
        self._running.setdefault(_file(test), now_s)

    def finish(self, test: str) -> None:
        file = _file(test)
        self._done += 1
        self._left[file] -= 1
        if self._left[file] <= 0:
            del self._left[file]
            self._running.pop(file, None)

    def line(self, now_s: float) -> str:
        """Returns the line of progress. The files that have run longest come first."""
        by_start = sorted(self._running.copy().items(), key=lambda file_and_start: file_and_start[1])
        running = ", ".join(f"{file.removeprefix('tests/')} ({_duration(now_s - start)})" for file, start in by_start)
        share = f"{self._done:,} of {self._all:,} tests done"
        waiting = len(self._left) - len(by_start)
        return f"{share}, {waiting} {'file' if waiting == 1 else 'files'} not started; running: {running or 'none'}"


class ProgressPlugin:
    """Writes the line of progress to the terminal. A thread of the plugin writes the line, because a single test may
    take minutes. The plugin must be created before pytest captures the output of tests."""

    def __init__(self, config: pytest.Config, every_s: float = EVERY_S) -> None:
        self._config, self._every_s = config, every_s
        self._progress = Progress()
        self._ended = threading.Event()
        # while a test runs, descriptor 1 belongs to pytest's capture
        self._terminal = os.fdopen(os.dup(1), "w")
        self._thread = threading.Thread(target=self._write, name="progress", daemon=True)

    def pytest_sessionstart(self) -> None:
        self._thread.start()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._progress.collect(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        self._progress.collect(ids)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._progress.start(nodeid, time.monotonic())

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._progress.finish(nodeid)

    def pytest_sessionfinish(self) -> None:
        self._ended.set()

    def _write(self) -> None:
        start_s, width_before = time.monotonic(), 0
        with self._terminal:
            while not self._ended.wait(self._every_s):
                now_s, width = time.monotonic(), self._config.get_terminal_writer().width_of_current_line
                end_of_dots = "" if width == width_before else "\n"
                self._terminal.write(f"{end_of_dots}[{_duration(now_s - start_s)}] {self._progress.line(now_s)}\n")
                self._terminal.flush()
                width_before = width


def _file(test: str) -> str:
    return test.partition("::")[0]


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"

"""Tests that a run of the tests reports its progress, and that all its processes end with the run, even if the run is
interrupted or killed. Other processes must not be ended, even if process numbers were reused."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from signal import SIGINT, SIGKILL, Signals

import psutil
import pytest

from tests.helpers.paths import ROOT
from tests.helpers.processes import all_processes, is_alive, send, still_running
from tests.helpers.progress import Progress
from tests.helpers.waiting import LIMIT_S, wait_for

pytestmark = pytest.mark.in_turns

TESTS = ["tests/a.py::one", "tests/a.py::two", "tests/b.py::C::one", "tests/c.py::one"]
# the test starts a process in a session of its own, which starts another one, as `txnscope watch` starts a JVM
STARTS = """
import os, pathlib, subprocess, sys, time
WAITS = "import time; time.sleep(1000)"
LEADER = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {WAITS!r}]).pid, flush=True); {WAITS}"

def test_starts():
    out = pathlib.Path(os.environ["STARTED"])
    with out.with_suffix(".part").open("w") as file:
        ours = {"MARK_OF_TEST_RUN": os.environ["MARK_OF_TEST_RUN"]}
        leader = subprocess.Popen([sys.executable, "-c", LEADER], stdout=file, start_new_session=True, env=ours)
    while not out.with_suffix(".part").read_text().endswith("\\n"):
        time.sleep(0.01)
    out.with_suffix(".part").write_text(f"{leader.pid} {out.with_suffix('.part').read_text()}")
    out.with_suffix(".part").rename(out)
    if os.environ["THEN"] == "waits":
        time.sleep(1000)
    leader.returncode = 0  # no warning that it runs
"""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Path]:
    """Yields the file with the numbers of the processes that the run starts. Kills these processes after the test."""
    file = tmp_path / "started"
    yield file
    if file.exists():
        send(SIGKILL, [psutil.Process(int(pid)) for pid in file.read_text().split() if psutil.pid_exists(int(pid))])


def run(started: Path, then: str, *options: str) -> subprocess.Popen[str]:
    """Starts pytest with a test that starts two processes, and then waits or passes, as `then` says."""
    test = started.with_name("test_starts.py")
    test.write_text(STARTS)
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", *options, str(test)],
        cwd=ROOT,
        env=os.environ | {"STARTED": str(started), "THEN": then},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    )


def processes(started: Path) -> list[psutil.Process]:
    wait_for(started.exists, "the processes of the run")
    found = [psutil.Process(int(pid)) for pid in started.read_text().split()]
    assert len(found) == 2
    return found


@pytest.mark.parametrize(
    ("number", "options"),
    [(SIGINT, ()), (SIGINT, ("--numprocesses", "2")), (SIGKILL, ("--numprocesses", "2"))],
    ids=["Ctrl-C", "Ctrl-C, two workers", "kill -9, two workers"],
)
def test_a_run_that_ends_by_a_signal_leaves_no_process(
    started: Path, number: Signals, options: tuple[str, ...]
) -> None:
    with run(started, "waits", *options) as running:
        left = processes(started)
        if number is SIGINT:  # a terminal sends Ctrl-C to the whole group
            os.killpg(running.pid, number)
        else:
            running.kill()
        wait_for(lambda: not still_running(left), "the end of the processes of the run")
        running.communicate(timeout=LIMIT_S)


def test_a_run_that_passes_reports_and_ends_the_processes_it_left(started: Path) -> None:
    with run(started, "passes") as running:
        output, _ = running.communicate(timeout=LIMIT_S)
    assert running.returncode == 0, output
    assert output.count("ended a process that the tests had left:") == 2, output
    assert not [pid for pid in map(int, started.read_text().split()) if is_alive(pid)]


def test_the_number_of_a_thread_is_no_process() -> None:
    leave = threading.Event()
    thread = threading.Thread(target=leave.wait)
    thread.start()
    try:
        assert thread.native_id is not None
        assert not is_alive(thread.native_id)
    finally:
        leave.set()
        thread.join()


@pytest.fixture
def another() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"]) as running:
        yield running
        running.kill()


def test_a_process_with_the_number_of_an_ended_one_is_let_alone(another: subprocess.Popen[bytes]) -> None:
    ended = psutil.Process(another.pid)
    assert still_running([ended]) == [ended]
    ended._ident = (ended.pid, ended.create_time() - 60)  # type: ignore[attr-defined]
    assert still_running([ended]) == []
    send(SIGKILL, [ended])
    assert is_alive(another.pid)


def test_a_number_that_was_found_before_is_looked_at_anew(another: subprocess.Popen[bytes]) -> None:
    """A process that is found now can be signalled, even if its number belonged to another process in an earlier
    list."""
    (found,) = (process for process in all_processes() if process.pid == another.pid)
    found._ident = (found.pid, found.create_time() - 60)  # type: ignore[attr-defined]
    (found,) = (process for process in all_processes() if process.pid == another.pid)
    assert still_running([found]) == [found]


def test_the_line_has_tests_done_and_the_files_that_run_longest_first() -> None:
    progress = Progress()
    progress.collect(TESTS)
    progress.collect(TESTS)  # as the call of another worker
    assert progress.line(0) == "0 of 4 tests done, 3 files not started; running: none"
    progress.start(TESTS[2], 10)
    progress.start(TESTS[0], 0)
    progress.finish(TESTS[0])
    assert progress.line(95) == "1 of 4 tests done, 1 file not started; running: a.py (1 min 35 s), b.py (1 min 25 s)"


def test_a_file_runs_until_its_last_test_ends() -> None:
    progress = Progress()
    progress.collect(TESTS)
    for test in TESTS[:2]:
        progress.start(test, 0)
        progress.finish(test)
    assert progress.line(1) == "2 of 4 tests done, 2 files not started; running: none"

"""Tests that child processes end on request, and with their parent, whatever ends the parent. The processes and SIGKILL
are real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from deploy.demo import child_process
from deploy.demo.child_process import ROOT, ChildProcess
from tests.helpers.processes import is_alive
from tests.helpers.waiting import wait_until, wait_until_equal

SLEEPER = "echo $$; exec sleep 1000"
STUBBORN = "trap '' TERM; echo $$; while :; do sleep 0.1; done"
A_PARENT = """
import signal, sys, time
from pathlib import Path
from deploy.demo.child_process import ChildProcess
with Path(sys.argv[1]).open("wb") as out:
    child = ChildProcess(["sh", "-c", sys.argv[2]], out)
while not Path(sys.argv[1]).read_text().endswith("\\n"):
    time.sleep(0.01)
if sys.argv[3] == "paused":
    child.signal(signal.SIGSTOP)
    stat = Path("/proc", Path(sys.argv[1]).read_text().split()[0], "stat")
    while stat.read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.01)
print(child._keeper.pid, flush=True)
time.sleep(1000)
"""


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_for_pid(file: Path) -> int:
    said = wait_until(file.read_text, lambda text: text.endswith("\n"), f"a pid in {file.name}")
    return int(said.split()[0])


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output"


@pytest.fixture
def running_child(output: Path) -> Iterator[ChildProcess]:
    with output.open("wb") as out:
        child = ChildProcess(["sh", "-c", SLEEPER], out)
    yield child
    child.kill()


@pytest.mark.parametrize(
    ("script", "state", "within_s"),
    # processes that handle SIGTERM end before they are killed
    [
        (SLEEPER, "running", child_process.GRACE_S),
        (SLEEPER, "paused", child_process.GRACE_S),
        (STUBBORN, "running", 2 * child_process.GRACE_S),
    ],
)
def test_kill_minus_9_of_the_parent_leaves_no_child(script: str, state: str, within_s: float, output: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", A_PARENT, str(output), script, state], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with parent:
        assert parent.stdout is not None
        keeper, child = int(parent.stdout.readline()), int(output.read_text().split()[0])
        assert is_alive(keeper)
        assert is_alive(child)
        parent.kill()
    wait_until_equal(
        lambda: [pid for pid in (child, keeper) if is_alive(pid)],
        [],
        f"those of the processes {(child, keeper)} that are still alive",
        within_s,
    )


def test_every_stop_ends_its_child_on_a_busy_machine(tmp_path: Path) -> None:
    """On a busy machine, a keeper process can get SIGTERM after SIGCONT and before it runs again. The keeper process
    must still react to SIGTERM."""
    with ExitStack() as running, (tmp_path / "busy").open("wb") as nothing:
        children = []
        for number in range(20):
            with (tmp_path / str(number)).open("wb") as out:
                children.append(ChildProcess(["sh", "-c", SLEEPER], out))
            running.callback(children[-1].kill)
        for number in range(20):
            wait_for_pid(tmp_path / str(number))
        for _ in range(2 * (os.cpu_count() or 1)):
            running.callback(ChildProcess(["sh", "-c", "while :; do :; done"], nothing).kill)
        time.sleep(0.5)
        # a child whose keeper misses SIGTERM is killed in the end, with another exit code
        assert {child.stop() for child in children} == {128 + signal.SIGTERM}


def test_pause_resume_and_kill_reach_the_child(running_child: ChildProcess, output: Path) -> None:
    pid = wait_for_pid(output)
    for _ in range(20):
        running_child.pause()
        assert state_of(pid) == "T", "the process must be frozen when pause() returns"
        running_child.signal(signal.SIGCONT)
        wait_until_equal(partial(state_of, pid), "S", "the state of the process")
    assert running_child.poll() is None
    assert running_child.kill() == 128 + signal.SIGKILL
    assert not is_alive(pid)


def test_the_exit_code_is_that_of_the_child(output: Path) -> None:
    with output.open("wb") as out:
        child = ChildProcess(["sh", "-c", "exit 7"], out)
    assert wait_until(child.poll, lambda code: code is not None, "the end of the child") == 7
    assert child.stop() == 7


def test_a_child_outlives_the_thread_that_started_it(output: Path) -> None:
    started: list[ChildProcess] = []

    def start() -> None:
        with output.open("wb") as out:
            started.append(ChildProcess(["sh", "-c", SLEEPER], out))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    pid = wait_for_pid(output)
    wait_until_equal(
        Path(f"/proc/self/task/{thread.native_id}").exists, False, "whether the kernel still has the thread"
    )
    started[0].pause()  # this waits for an answer of the keeper of the child
    assert state_of(pid) == "T"
    assert started[0].stop() == 128 + signal.SIGTERM

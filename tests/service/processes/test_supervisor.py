"""Tests of a supervisor with real child processes: children are restarted, ended together, and never left running."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from service.processes.waiting import Backoff
from tests.helpers.paths import ROOT
from tests.helpers.processes import is_alive, send, with_environment
from tests.helpers.waiting import LIMIT_S, wait_until, wait_until_equal

pytestmark = pytest.mark.in_turns

SUPERVISOR = """
import sys
from service.processes.supervisor import ChildCommand, Pauses, Silence, Supervisor
steady_after_s, to_kill_s, silent_s, silent_at_start_s = map(float, sys.argv[1:5])
pauses = Pauses(first_s=0.2, longest_s=1.6, steady_after_s=steady_after_s, to_kill_s=to_kill_s)
silence = Silence(silent_at_start_s, silent_s) if silent_s else None
commands = [ChildCommand(f"child{n}", [sys.executable, "-c", c], silence=silence) for n, c in enumerate(sys.argv[5:])]
sys.exit(Supervisor(commands, pauses).run())
"""
LIVES = """
import os, signal, sys, time
from service.processes import lifeline
signal.signal(signal.SIGTERM, lambda *_: (print("ending", flush=True), sys.exit(0)))
lifeline.hold()
print("pid", os.getpid(), flush=True)
time.sleep(1000)
"""
DEAF = """
import os, signal, time
from service.processes import lifeline
signal.signal(signal.SIGTERM, signal.SIG_IGN)
lifeline.hold()
print("pid", os.getpid(), flush=True)
time.sleep(1000)
"""
DEAF_PARENT = """
import os, signal, subprocess, sys, time
from service.processes import lifeline
signal.signal(signal.SIGTERM, signal.SIG_IGN)
lifeline.hold()
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
print("pid", os.getpid(), "pid", grandchild.pid, flush=True)
time.sleep(1000)
"""
PARENT_OF_ONE = """
import os, subprocess, sys, time
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
print("pid", grandchild.pid, flush=True)
os._exit(1)
"""
BEATS = """
import os, time
from service.processes import lifeline
beat = lifeline.hold()
print("pid", os.getpid(), flush=True)
while True:
    beat()
    time.sleep(0.2)
"""
DIES = "import sys; print('born', flush=True); sys.exit(3)"


MARK = "SUPERVISOR_TEST_MARK"


class Running:
    """A supervisor process and its output so far. The environment of each process that the supervisor starts contains a
    mark."""

    def __init__(
        self,
        directory: Path,
        *children: str,
        steady_after_s: float = 60,
        to_kill_s: float = 12,
        silent_s: float = 0,
        silent_at_start_s: float = 1000,
    ) -> None:
        self._log, self.mark = directory / "stderr", uuid4().hex
        seconds = map(str, (steady_after_s, to_kill_s, silent_s, silent_at_start_s))
        with self._log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SUPERVISOR, *seconds, *children],
                cwd=ROOT,
                env=os.environ | {MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stderr=out,
                start_new_session=True,
            )

    @property
    def text(self) -> str:
        return self._log.read_text()

    @property
    def pids(self) -> list[int]:
        """Returns every pid that the children have printed: their own pids, and those of grandchildren."""
        return [int(number) for number in re.findall(r"pid (\d+)", self.text)]

    def wait_for(self, probe: Callable[[], bool]) -> None:
        """Waits until `probe` is true. On a timeout, the output so far is shown."""
        wait_until(lambda: (probe(), self.text), lambda seen: seen[0], "the condition of the test")

    def wait_for_text(self, is_so: Callable[[str], bool], what: str) -> None:
        wait_until(lambda: self.text, is_so, what)

    def wait_for_pids(self, count: int) -> list[int]:
        self.wait_for_text(lambda _: len(self.pids) >= count, f"{count} pids")
        return self.pids


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running: list[Running] = []

    def begin(*children: str, **pauses: float) -> Running:
        running.append(Running(tmp_path, *children, **pauses))
        return running[-1]

    yield begin
    for one in running:
        one.process.kill()
        one.process.wait()
        send(signal.SIGKILL, with_environment(MARK, one.mark))


@pytest.mark.parametrize(
    ("send_to", "number"),
    [(os.kill, signal.SIGTERM), (os.kill, signal.SIGINT), (os.killpg, signal.SIGINT)],
    ids=["SIGTERM", "SIGINT", "Ctrl-C to the foreground group"],
)
def test_a_signal_ends_every_process_with_exit_code_0(
    start: Start, send_to: Callable[[int, int], None], number: signal.Signals
) -> None:
    running = start(LIVES, LIVES)
    pids = running.wait_for_pids(2)
    send_to(running.process.pid, number)
    assert running.process.wait(LIMIT_S) == 0
    assert not any(map(is_alive, pids))
    assert not [word for word in ("again", "Traceback") if word in running.text]
    assert send_to is os.killpg or running.text.count("ending") == 2


def test_a_child_that_ignores_sigterm_is_killed(start: Start) -> None:
    running = start(DEAF, LIVES, to_kill_s=1)
    pids = running.wait_for_pids(2)
    running.process.terminate()
    assert running.process.wait(LIMIT_S) == 0
    assert not any(map(is_alive, pids))
    assert "child0 did not end in time: killed" in running.text


def test_children_end_with_a_killed_supervisor(start: Start) -> None:
    """A child that ignores SIGTERM ends as well, together with its own child."""
    running = start(LIVES, DEAF_PARENT)
    pids = running.wait_for_pids(3)
    running.process.kill()
    running.process.wait()
    wait_until_equal(lambda: [pid for pid in pids if is_alive(pid)], [], "the children that still run")


@pytest.mark.parametrize(
    ("child", "number", "silent_s", "why"),
    [
        (LIVES, signal.SIGKILL, 0, "was killed by SIGKILL"),
        (BEATS, signal.SIGSTOP, 5, r"did not answer for \d+ s and was killed"),
    ],
    ids=["dead", "silent"],
)
def test_a_failed_child_is_started_again_and_reported_in_one_line(
    start: Start, child: str, number: signal.Signals, silent_s: float, why: str
) -> None:
    running = start(child, child, silent_s=silent_s)
    first, other = running.wait_for_pids(2)
    os.kill(first, number)
    pids = running.wait_for_pids(3)
    assert [is_alive(pid) for pid in (first, other, pids[2])] == [False, True, True]
    (said,) = (line for line in running.text.splitlines() if line.startswith("watch "))
    assert re.fullmatch(rf"watch +\| child\d {why}; starting it again in 0.2 s", said)


def test_pauses_double_up_to_the_longest(start: Start) -> None:
    running = start(DIES)
    running.wait_for_text(lambda text: text.count("again") >= 5, "five starts")
    pauses = re.findall(r"ended with exit code 3; starting it again in (\S+) s", running.text)
    assert pauses[:5] == ["0.2", "0.4", "0.8", "1.6", "1.6"]


def test_a_child_that_runs_steadily_resets_the_pause(start: Start) -> None:
    running = start("import time; time.sleep(0.5)", steady_after_s=0.3)
    running.wait_for_text(lambda text: text.count("again") >= 3, "three starts")
    assert set(re.findall(r"again in (\S+) s", running.text)) == {"0.2"}


def test_processes_of_a_dead_child_end_before_its_successor_starts(start: Start) -> None:
    running = start(PARENT_OF_ONE)
    pids = running.wait_for_pids(3)
    assert not is_alive(pids[0])
    assert not is_alive(pids[1])
    running.process.terminate()
    assert running.process.wait(LIMIT_S) == 0
    assert not any(map(is_alive, running.pids))


def test_a_wrong_configuration_ends_every_process_with_exit_code_2(start: Start) -> None:
    running = start(LIVES, "import sys; print('bad flag', file=sys.stderr); sys.exit(2)")
    assert running.process.wait(LIMIT_S) == 2
    assert not any(map(is_alive, running.pids))
    assert "child1 | bad flag\n" in running.text


def test_output_is_prefixed_and_comes_line_by_line(start: Start) -> None:
    running = start("import time; print('one'); print('two'); print('cut', end=''); time.sleep(1000)")
    running.wait_for_text(lambda text: "child0 | one\nchild0 | two\n" in text, "two lines of the child")
    running.process.terminate()
    assert running.process.wait(LIMIT_S) == 0
    assert running.text.endswith("child0 | cut\n")


LEAVES_A_STOPPED_ONE = """
import os, signal, subprocess, sys, time
code = "import os, time; os.setpgid(0, 0); print('there', flush=True); time.sleep(1000)"
stopped = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
stopped.stdout.readline()
os.kill(stopped.pid, signal.SIGSTOP)
print("pid", stopped.pid, flush=True)
time.sleep(1000)
"""


def test_a_child_has_more_time_before_its_first_heartbeat(start: Start) -> None:
    running = start(LIVES, silent_s=1, silent_at_start_s=4)
    running.wait_for_text(
        lambda text: "child0 did not answer for 4 s and was killed" in text, "child0 to be killed after 4 s"
    )


def test_children_end_a_frozen_supervisor_a_frozen_sibling_and_themselves(start: Start) -> None:
    """A frozen supervisor does not notice that a child has died, and a frozen child keeps its port. So the child that
    still works kills the supervisor and the frozen child, and ends itself. The service manager then starts everything
    again."""
    running = start(BEATS, BEATS)
    pids = running.wait_for_pids(2)
    for pid in (running.process.pid, pids[0]):
        os.kill(pid, signal.SIGSTOP)
    assert running.process.wait(LIMIT_S) == -signal.SIGKILL
    wait_until_equal(lambda: [pid for pid in pids if is_alive(pid)], [], "the children that still run")


def test_a_stopped_process_outside_its_group_is_killed_too(start: Start) -> None:
    running = start(LEAVES_A_STOPPED_ONE)
    (stopped,) = running.wait_for_pids(1)
    running.process.terminate()
    assert running.process.wait(LIMIT_S) == 0
    assert not is_alive(stopped)


def test_a_child_that_cannot_run_does_not_end_the_others(tmp_path: Path) -> None:
    """A child that ends with exit code 2 (wrong settings) or 3 (no brokers) does not end the children of other
    clusters."""
    log = tmp_path / "log"
    commands = [
        {"name": "wrong", "command": [sys.executable, "-c", "import sys; sys.exit(2)"]},
        {"name": "away", "command": [sys.executable, "-c", "import sys; sys.exit(3)"]},
        {"name": "fine", "command": [sys.executable, "-uc", "import time; print('works'); time.sleep(999)"]},
    ]
    with (
        log.open("w") as out,
        subprocess.Popen(
            [sys.executable, "-m", "service.processes", json.dumps(commands)], cwd=ROOT, stderr=out
        ) as all_,
    ):
        try:
            wanted = ("wrong ended with exit code 2; starting", "away ended with exit code 3; starting", "works")
            wait_until_equal(
                lambda: [reported for reported in wanted if reported not in log.read_text()],
                [],
                "the expected messages that the log lacks",
            )
            assert all_.poll() is None
        finally:
            all_.terminate()
    assert all_.returncode == 0


def test_a_single_child_that_never_worked_is_not_started_again() -> None:
    job = [sys.executable, "-c", "import sys; sys.exit(3)"]
    ended = subprocess.run(
        [sys.executable, "-m", "service.processes", json.dumps([{"name": "job", "command": job}])],
        cwd=ROOT,
        timeout=LIMIT_S,
    )
    assert ended.returncode == 3


def test_a_backoff_doubles_up_to_the_longest_and_can_be_reset() -> None:
    backoff = Backoff(0.2, 1.5)
    assert [backoff.next_s() for _ in range(6)] == [0.2, 0.4, 0.8, 1.5, 1.5, 1.5]
    backoff.reset()
    assert backoff.next_s() == 0.2


def test_no_backoff_is_longer_than_the_longest() -> None:
    assert Backoff(1.0, 0.1).next_s() == 0.1

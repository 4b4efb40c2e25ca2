"""Seconds that count against a silent process: not those that it, or whoever looks, was not given."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator

import pytest

from service.processes.identity import ProcessorTime, descendants, in_session, kill_session, processor_time
from service.processes.working_time import LONGEST_STEP_S, WorkingTime
from tests.helpers.waiting import wait_for, wait_until_equal


class Clock:
    def __init__(self) -> None:
        self.now_s, self.used = 100.0, ProcessorTime(0, 0)

    def time(self) -> WorkingTime:
        return WorkingTime(list, lambda: self.now_s, self._used)

    def _used(self, _pids: Iterable[int]) -> ProcessorTime:
        return self.used


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_step_counts_what_the_processes_were_given(clock: Clock) -> None:
    time = clock.time()
    assert time.step() == 0
    for ran, waited, counted in ((0, 0, 1.0), (5, 0, 1.0), (5, 5, 1.0), (1, 9, 0.2), (0, 9, 0.0)):
        clock.now_s += 1
        clock.used = ProcessorTime(clock.used.ran_ns + ran, clock.used.waited_ns + waited)
        assert time.step() == pytest.approx(counted)


def test_a_step_is_never_long_and_never_negative(clock: Clock) -> None:
    time = clock.time()
    clock.now_s += 3_600
    assert time.skip() == LONGEST_STEP_S
    clock.now_s -= 50
    assert time.step() == 0


def test_what_ended_processes_used_is_not_held_against_the_others(clock: Clock) -> None:
    time = clock.time()
    clock.used = ProcessorTime(9_000, 9_000)
    time.step()
    clock.now_s, clock.used = clock.now_s + 1, ProcessorTime(10, 20)
    assert time.step() == 1.0


@pytest.fixture
def family() -> Iterator[subprocess.Popen[bytes]]:
    """A process that leads a session, with a child in a process group of its own."""
    code = "import os, time; os.fork() or os.setpgid(0, 0); time.sleep(1000)"
    leader = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    yield leader
    leader.kill()
    kill_session(leader.pid)
    leader.wait()


def test_a_session_and_a_family_are_found_whole(family: subprocess.Popen[bytes]) -> None:
    both = wait_for(lambda: found if len(found := in_session(family.pid)) == 2 else None, "the child")
    assert both is not None
    assert sorted(descendants(family.pid)) == sorted(both)
    assert family.pid in descendants(os.getpid())


def test_a_session_is_killed_whole_also_what_is_stopped(family: subprocess.Popen[bytes]) -> None:
    both = wait_for(lambda: found if len(found := in_session(family.pid)) == 2 else None, "the child")
    for pid in both or ():
        os.kill(pid, signal.SIGSTOP)
    kill_session(family.pid)
    wait_until_equal(lambda: in_session(family.pid), [], "the session")


def test_the_kernel_says_what_we_used() -> None:
    before = processor_time([os.getpid()])
    sum(range(3_000_000))
    after = processor_time([os.getpid(), 2**22 + 1])
    assert after.ran_ns > before.ran_ns

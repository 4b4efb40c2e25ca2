"""Tests of the identity and the working time of processes, with real processes that are killed.

The identity of a process is enough to find out whether the process has ended. Working time leaves out the time in which
processes only waited for a processor.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from service.processes import identity
from service.processes.identity import (
    ProcessorTime,
    descendants,
    has_ended,
    host_and_pid,
    in_session,
    kill_session,
    own_identity,
    processor_time,
)
from service.processes.waiting import LONGEST_STEP_S, WorkingTime
from tests.helpers.paths import ROOT
from tests.helpers.waiting import wait_for, wait_until_equal

_NAMES_ITSELF = "from service.processes.identity import own_identity; print(own_identity(), flush=True); input()"


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    """Yields a process that prints its identity, and then waits."""
    with subprocess.Popen(
        [sys.executable, "-c", _NAMES_ITSELF], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_process_that_runs_or_is_stopped_has_not_ended(other: subprocess.Popen[str]) -> None:
    found = said(other)
    assert not has_ended(own_identity())
    assert not has_ended(found)
    other.send_signal(signal.SIGSTOP)
    wait_until_equal(lambda: state(other.pid), "T", "the state of the process")
    assert not has_ended(found)


def test_a_killed_process_has_ended_before_its_exit_code_is_read(other: subprocess.Popen[str]) -> None:
    found = said(other)
    os.kill(other.pid, signal.SIGKILL)
    wait_until_equal(lambda: state(other.pid), "Z", "the state of the process")
    assert has_ended(found)
    other.wait()
    assert has_ended(found)


def test_a_reused_process_id_is_not_taken_for_the_old_process() -> None:
    host, pid, started, machine = own_identity().split(":")
    assert has_ended(f"{host}:{pid}:{int(started) - 1}:{machine}")


def test_nothing_is_known_of_other_machines(other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = said(other)
    other.kill()
    other.wait()
    assert has_ended(found)
    assert not has_ended(f"{found[:-12]}{'0' * 12}"), "the identity is of another boot or another container"
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    assert not has_ended(found), "the identity is of a machine with another name"


@pytest.mark.parametrize("owner", ["", "driver", "8d1f0ac2", "host:0:5:0123456789ab", "host:-1:5:0123456789ab"])
def test_a_text_that_is_no_identity_has_not_ended(owner: str) -> None:
    assert not has_ended(owner)
    assert host_and_pid(owner) == owner


def test_an_identity_is_shown_as_host_and_process_id() -> None:
    assert host_and_pid("kafka-tools-1:4711:912345:0123456789ab") == "kafka-tools-1:4711"


def test_without_proc_each_process_has_its_own_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_PROC", tmp_path)
    first, second = own_identity(), own_identity()
    assert first != second
    assert not has_ended(first)


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


def test_a_step_counts_the_share_of_time_that_processes_were_given(clock: Clock) -> None:
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


def test_time_used_by_ended_processes_does_not_shorten_a_step(clock: Clock) -> None:
    time = clock.time()
    clock.used = ProcessorTime(9_000, 9_000)
    time.step()
    clock.now_s, clock.used = clock.now_s + 1, ProcessorTime(10, 20)
    assert time.step() == 1.0


@pytest.fixture
def family() -> Iterator[subprocess.Popen[bytes]]:
    """Yields a process that leads a session and has a child in another process group."""
    code = "import os, time; os.fork() or os.setpgid(0, 0); time.sleep(1000)"
    leader = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    yield leader
    leader.kill()
    kill_session(leader.pid)
    leader.wait()


def test_every_process_of_a_session_and_every_descendant_is_found(family: subprocess.Popen[bytes]) -> None:
    both = wait_for(
        lambda: found if len(found := in_session(family.pid)) == 2 else None, "the leader and its child in the session"
    )
    assert both is not None
    assert sorted(descendants(family.pid)) == sorted(both)
    assert family.pid in descendants(os.getpid())


def test_every_process_of_a_session_is_killed_also_a_stopped_one(family: subprocess.Popen[bytes]) -> None:
    both = wait_for(
        lambda: found if len(found := in_session(family.pid)) == 2 else None, "the leader and its child in the session"
    )
    for pid in both or ():
        os.kill(pid, signal.SIGSTOP)
    kill_session(family.pid)
    wait_until_equal(lambda: in_session(family.pid), [], "the processes of the session")


def test_the_kernel_reports_the_processor_time() -> None:
    before = processor_time([os.getpid()])
    sum(range(3_000_000))
    after = processor_time([os.getpid(), 2**22 + 1])
    assert after.ran_ns > before.ran_ns

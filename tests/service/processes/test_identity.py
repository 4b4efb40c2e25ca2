"""The end of a process on this machine is known by its identity alone. Real processes, really killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.processes import identity
from service.processes.identity import has_ended, host_and_pid, own_identity
from tests.helpers.paths import ROOT
from tests.helpers.waiting import wait_until_equal

_NAMES_ITSELF = "from service.processes.identity import own_identity; print(own_identity(), flush=True); input()"


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    """A process that has printed its identity and waits."""
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


def test_who_runs_or_is_only_stopped_has_not_ended(other: subprocess.Popen[str]) -> None:
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
    assert not has_ended(f"{found[:-12]}{'0' * 12}"), "another boot, or another container"
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    assert not has_ended(found), "a copy of the machine under another name"


@pytest.mark.parametrize("owner", ["", "driver", "8d1f0ac2", "host:0:5:0123456789ab", "host:-1:5:0123456789ab"])
def test_what_is_no_identity_is_never_said_to_have_ended(owner: str) -> None:
    assert not has_ended(owner)
    assert host_and_pid(owner) == owner


def test_people_read_host_and_process() -> None:
    assert host_and_pid("kafka-tools-1:4711:912345:0123456789ab") == "kafka-tools-1:4711"


def test_without_proc_each_process_has_a_name_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_PROC", tmp_path)
    first, second = own_identity(), own_identity()
    assert first != second
    assert not has_ended(first)

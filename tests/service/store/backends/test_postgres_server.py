"""The server of the tests leaves nothing behind, and says what to do where it is not installed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.demo.child_process import ROOT
from tests.helpers.postgres import Postgres, PostgresError, find_programs
from tests.helpers.processes import is_alive
from tests.helpers.waiting import wait_until_equal

A_TEST_RUN = """
import time
from tests.helpers.postgres import Postgres
with Postgres() as server:
    print(server.directory, flush=True)
    time.sleep(1000)
"""


def server_of(directory: Path) -> int:
    return int((directory / "data" / "postmaster.pid").read_text().split()[0])


def wait_until_gone(pid: int) -> None:
    wait_until_equal(lambda: is_alive(pid), False, "that the server runs")


def test_the_server_and_its_directory_are_gone_afterwards() -> None:
    with Postgres() as server:
        pid = server_of(server.directory)
        assert server.execute("SELECT 1") == [(1,)]
    assert not is_alive(pid)
    assert not server.directory.exists()


def test_a_killed_run_leaves_no_server_and_its_directory_only_for_a_while() -> None:
    run = subprocess.Popen([sys.executable, "-c", A_TEST_RUN], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    directory = Path(run.stdout.readline().strip())
    pid = server_of(directory)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    wait_until_gone(pid)
    with Postgres():
        assert not directory.exists()


def test_where_there_is_no_server_it_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PostgresError, match="make system-packages"):
        find_programs(packaged=tmp_path)


def test_the_newest_packaged_server_is_used(tmp_path: Path) -> None:
    for version in ("9", "15", "17"):
        programs = tmp_path / version / "bin"
        programs.mkdir(parents=True)
        (programs / "postgres").touch()
    (tmp_path / "18" / "bin").mkdir(parents=True)  # the client alone
    assert find_programs(packaged=tmp_path) == tmp_path / "17" / "bin"

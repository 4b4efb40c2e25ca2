"""Tests end only the processes they meant: a process number may belong to another process by then."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import psutil

from tests.helpers.processes import all_processes, is_alive, send, still_running


def test_the_number_of_a_thread_is_nobody() -> None:
    leave = threading.Event()
    thread = threading.Thread(target=leave.wait)
    thread.start()
    try:
        assert thread.native_id is not None
        assert not is_alive(thread.native_id)
    finally:
        leave.set()
        thread.join()


def test_who_was_given_a_number_again_is_let_alone() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"]) as another:
        try:
            ended = psutil.Process(another.pid)
            assert still_running([ended]) == [ended]
            ended._ident = (ended.pid, ended.create_time() - 60)  # type: ignore[attr-defined]
            assert still_running([ended]) == []
            send(signal.SIGKILL, [ended])
            assert is_alive(another.pid)
        finally:
            another.kill()


def test_a_number_that_was_found_before_is_looked_at_anew() -> None:
    """The process that is found now may be signalled, whoever had its number when all processes were looked at last."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"]) as running:
        try:
            (found,) = (one for one in all_processes() if one.pid == running.pid)
            found._ident = (found.pid, found.create_time() - 60)  # type: ignore[attr-defined]
            (found,) = (one for one in all_processes() if one.pid == running.pid)
            assert still_running([found]) == [found]
        finally:
            running.kill()

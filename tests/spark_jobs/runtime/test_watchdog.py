"""Tests that a process that cannot continue ends with a single log line, and reports until then that it is alive."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from spark_jobs.runtime.watchdog import BadLiveness, liveness_reporter
from tests.helpers.brokers import free_port
from tests.helpers.paths import ROOT
from tests.helpers.waiting import LIMIT_S, wait_for

WATCHED = """
import logging, subprocess, sys, threading, time
from spark_jobs.runtime import liveness, watchdog
from spark_jobs.runtime.liveness import Liveness
from spark_jobs.runtime.watchdog import Watchdog
logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")
watchdog.CHECK_EVERY_S = 0.05
watch = Liveness(list)
checks = threading.Semaphore(0)
dog = Watchdog(watch, checks.release)
dog.begin()
jvm = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
dog.guard(jvm)
"""


def ended(code: str) -> tuple[int, str]:
    """Runs `code` in a new process. Returns the exit code and the log of the process."""
    done = subprocess.run(
        [sys.executable, "-c", WATCHED + code], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "jvm.kill(); time.sleep(1000)",
            (1, "ERROR Spark's JVM was killed by SIGKILL: this process ends, and the supervisor starts it again\n"),
        ),
        (
            "def work():\n    raise ValueError('two\\nlines')\n"
            "threading.Thread(target=work, name='judge').start()\n"
            "time.sleep(1000)\n",
            (
                1,
                "ERROR thread 'judge' failed with ValueError: two lines: this process ends, and the supervisor starts"
                " it again\n",
            ),
        ),
        (
            "dog.allow_jvm_end(); jvm.kill(); jvm.wait()\n"
            "while checks.acquire(blocking=False): pass\n"
            "checks.acquire(); checks.acquire()  # a whole check has come after the end of the JVM\n"
            "dog.end(); sys.exit(0)",
            (0, ""),
        ),
    ],
    ids=["its JVM is killed", "a thread dies", "it ends by itself"],
)
def test_a_process_that_cannot_go_on_ends_with_one_line(code: str, expected: tuple[int, str]) -> None:
    assert ended(code) == expected


def test_a_part_without_progress_ends_the_process_and_its_jvm() -> None:
    code, said = ended(
        "print(jvm.pid, file=sys.stderr, flush=True)\n"
        "with watch.part('partitions', 0.5) as part:\n"
        "    part.step()\n"
        "    time.sleep(1000)\n"
    )
    assert code == 1
    pid, line = said.splitlines()
    assert re.fullmatch(
        r"ERROR no progress of partitions for \d+ s: this process ends, and the supervisor starts it again", line
    )
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), "the end of the JVM")


def test_liveness_is_reported_by_a_file(tmp_path: Path) -> None:
    file = tmp_path / "alive"
    report = liveness_reporter(str(file))
    os.utime(file, (0, 0))
    report()
    assert file.stat().st_mtime > 0


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_liveness_is_reported_by_a_port(host: str) -> None:
    port = free_port()
    report = liveness_reporter(f"{host}:{port}")
    with pytest.raises(urllib.error.HTTPError, match="503"):
        urllib.request.urlopen(f"http://{host}:{port}/", timeout=LIMIT_S)
    report()
    with urllib.request.urlopen(f"http://{host}:{port}/anything", timeout=LIMIT_S) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("where", ["{taken}", "/nowhere/alive", "99999", "nowhere.invalid:8081"])
def test_an_error_names_the_liveness_that_cannot_be_reported(where: str) -> None:
    port = free_port()
    liveness_reporter(str(port))
    named = where.format(taken=port)
    with pytest.raises(BadLiveness, match=f"liveness {named}: "):
        liveness_reporter(named)

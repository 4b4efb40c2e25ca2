"""Tests of long-running commands, started as a user starts them, with a stub in place of the streaming application."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Participants
from tests.helpers.paths import ROOT
from tests.helpers.processes import all_processes, command_of
from tests.helpers.stores import Id, SeededCluster, open_id
from tests.helpers.waiting import ANSWER_S, LIMIT_S, wait_until, wait_until_equal

pytestmark = pytest.mark.in_turns

INGEST = """
import json, os, signal, sys, threading, time
from service.processes import lifeline
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
beat = lifeline.hold()
threading.Thread(target=lambda: [(beat(), time.sleep(1)) for _ in range(1000)], daemon=True).start()
print("ingest", os.getpid(), json.dumps([json.loads(os.environ["TXNSCOPE_SETTINGS"]), *sys.argv[1:]]), flush=True)
time.sleep(1000)
"""


class Command:
    """A running `txnscope …` and its output so far, stderr and stdout together."""

    def __init__(self, directory: Path, *arguments: str, **environment: str) -> None:
        self._log = directory / "output"
        ours = {k: v for k, v in os.environ.items() if not k.startswith("TXNSCOPE_")}
        with self._log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "service.cli", *arguments],
                cwd=directory,
                env=ours | {"PYTHONPATH": str(ROOT)} | environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    @property
    def text(self) -> str:
        return self._log.read_text()

    def wait_for_text(self, text: str, times: int = 1) -> None:
        wait_until(lambda: self.text, lambda said: said.count(text) >= times, f"{text!r}, {times} times")

    def wait_for_status(self, port: int, path: str, status: int = 200) -> None:
        """Waits until the service answers with this status. On a timeout, the output of the command is shown."""
        wait_until(
            lambda: (status_of(port, path), self.text), lambda answer: answer[0] == status, f"{status} from {path}"
        )


Start = Callable[..., Command]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Yields a function that starts a command in a directory where a script replaces `spark_jobs`.

    The script prints its pid, its settings and its arguments, and does not end.
    """
    application = tmp_path / "spark_jobs"
    application.mkdir()
    (application / "__init__.py").touch()
    (application / "__main__.py").write_text(INGEST)
    running: list[Command] = []

    def begin(*arguments: str, **environment: str) -> Command:
        running.append(Command(tmp_path, *arguments, **environment))
        return running[-1]

    yield begin
    for command in running:
        if command.process.poll() is None:
            command.process.terminate()
            command.process.wait(LIMIT_S)


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def status_of(port: int, path: str) -> int:
    """Returns the status of the answer, or 0 if the connection fails."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=ANSWER_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


def test_serve_starts_before_its_store_and_ends_with_exit_code_0(start: Start, port: int, tmp_path: Path) -> None:
    served = start("serve", "--port", str(port))
    served.wait_for_text(f"serving http://127.0.0.1:{port}\n")
    served.wait_for_status(port, "/-/healthy")
    assert status_of(port, "/-/ready") == 503
    assert not (tmp_path / "txnscope.db").exists()
    migrated = subprocess.run(
        [sys.executable, "-m", "service.cli", "migrate"], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert migrated.returncode == 0
    served.wait_for_status(port, "/-/ready")
    assert status_of(port, "/metrics") == 200
    served.wait_for_text("ready: the store can be read\n")
    served.process.terminate()
    assert served.process.wait(LIMIT_S) == 0
    first, *others = served.text.splitlines()
    assert first.startswith("not ready: store sqlite:///txnscope.db: there is no such file; the application (`txnscope")
    assert sorted(others) == ["ready: the store can be read", f"serving http://127.0.0.1:{port}"]


def test_serve_ends_with_exit_code_0_on_ctrl_c(start: Start, port: int) -> None:
    served = start("serve", "--port", str(port))
    served.wait_for_status(port, "/-/healthy")
    served.process.send_signal(signal.SIGINT)
    assert served.process.wait(LIMIT_S) == 0
    assert "Traceback" not in served.text


def test_ingest_keeps_the_application_running(start: Start) -> None:
    flags = ("--bootstrap-servers", "a:1,b:2", "--cluster", "orders", "--checkpoint", "scratch")
    command = start("ingest", *flags, "--liveness", "alive")
    command.wait_for_text("ingest ")
    _, pid, arguments = command.text.split(" ", 2)
    expected = {"bootstrap_servers": "a:1,b:2", "cluster": "orders", "checkpoint": "scratch", "liveness": "alive"}
    assert json.loads(arguments) == [expected]
    os.kill(int(pid), signal.SIGKILL)
    command.wait_for_text("ingest | ingest was killed by SIGKILL; starting it again in 1 s\n")
    command.wait_for_text(arguments, times=2)
    command.process.terminate()
    assert command.process.wait(LIMIT_S) == 0


def test_watch_migrates_and_runs_both_processes_until_sigterm(start: Start, port: int, tmp_path: Path) -> None:
    watched = start("watch", "--bootstrap-servers", "a:1", "--port", str(port))
    watched.wait_for_status(port, "/-/ready")
    watched.wait_for_text("ingest | ingest ")
    watched.wait_for_text(f"serve  | serving http://127.0.0.1:{port}\n")
    assert (tmp_path / "txnscope.db").exists()
    (serving,) = (
        process for process in psutil.Process(watched.process.pid).children() if " serve" in command_of(process)
    )
    reported = json.loads(serving.environ()["TXNSCOPE_SETTINGS"])
    assert reported["bootstrap_servers"] == "a:1", "the service asks the same brokers for what the store lacks"
    watched.process.terminate()
    assert watched.process.wait(LIMIT_S) == 0
    assert status_of(port, "/-/healthy") == 0


def test_the_url_of_the_store_is_no_argument_of_a_child_process(start: Start, port: int, tmp_path: Path) -> None:
    """The URL may contain a password."""
    url = f"sqlite:///{tmp_path / 's3cret.db'}"
    watched = start("watch", "--bootstrap-servers", "a:1", "--port", str(port), TXNSCOPE_STORE=url)
    seen: set[str] = set()

    def look() -> tuple[int, str]:
        seen.update(command_lines())
        return status_of(port, "/-/ready"), watched.text

    wait_until(
        look,
        lambda reported: reported[0] == 200 and "ingest | ingest " in reported[1],
        "the service and the application to run",
    )
    for command in ("watch", "migrate", "serve", "spark_jobs"):
        assert any(command in line.split() for line in seen), f"no command line of {command} was seen"
    assert not [line for line in seen if "s3cret" in line]
    assert url in watched.text, "the application did not get its store"
    ingest = start("ingest", "--bootstrap-servers", "a:1", "--store", url)
    ingest.wait_for_text("ingest ")
    assert "s3cret" not in command_of(psutil.Process(ingest.process.pid))


def command_lines() -> set[str]:
    return {f"{command_of(process)} " for process in all_processes()}


def test_nothing_outlives_a_killed_watch(start: Start, port: int) -> None:
    watched = start("watch", "--bootstrap-servers", "a:1", "--port", str(port))
    watched.wait_for_text("ingest | ingest ")
    watched.wait_for_status(port, "/-/healthy")
    ingest = int(watched.text.split("ingest | ingest ")[1].split()[0])
    watched.process.kill()
    watched.process.wait()
    wait_until_equal(
        lambda: (status_of(port, "/-/healthy"), Path(f"/proc/{ingest}").exists()),
        (0, False),
        "the status of the service, and whether the application runs,",
        timeout_s=10,
    )


def test_commands_print_tables_of_a_running_service(start: Start, port: int, tmp_path: Path) -> None:
    seeded = SeededCluster(f"sqlite:///{tmp_path / 'txnscope.db'}")
    late = open_id("billing-1", 200_000, producer_id=7, producer_epoch=2)
    ended = [Id(b"done-%03d" % n, states.COMPLETE_COMMIT, commits=1) for n in range(250)]
    seeded.read([late, *ended, Id("gr\u00fcn & co".encode(), states.PREPARE_ABORT, topics=(Participants("t", (0,)),))])
    served = start("serve", "--port", str(port))
    served.wait_for_status(port, "/-/ready")

    def ask(*arguments: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "service.cli", arguments[0], "--url", f"http://127.0.0.1:{port}", *arguments[1:]],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout, done.stderr

    code, out, err = ask("transactions", "--state", "Ongoing")
    heads, row = out.splitlines()
    assert code == 0
    assert heads.split("  ")[0] == "TRANSACTIONAL.ID"
    assert row.split()[:7] == ["billing-1", "-", "Ongoing", "3m", "20s", "7", "2"]
    assert row.endswith("payments-0,payments-1")
    assert err.startswith("1 row as of 20")

    code, out, _ = ask("transactions", "--prefix", "done-", "--limit", "220", "--sort", "transactional_id", "--json")
    page = json.loads(out)
    assert code == 0
    assert [one["transactional_id"] for one in page["items"]] == [f"done-{n:03d}" for n in range(220)]
    assert page["next_cursor"]

    code, out, _ = ask("transaction", "--cluster", "orders", "billing-1")
    facts, _, _ = out.partition("\n\n")
    shown = dict(line.split(maxsplit=1) for line in facts.splitlines())
    assert code == 0
    assert shown["transactional_id"] == "billing-1"
    assert shown["state"] == "Ongoing"
    assert shown["producer_id"] == "7 epoch 2"
    assert shown["partitions"] == "payments-0, payments-1"

    code, out, _ = ask("transaction", "--json", "gr\u00fcn & co")
    assert (code, json.loads(out)["state"]) == (0, "PrepareAbort")

    for arguments, name in {
        ("transaction", "nobody"): "nobody",
        ("transactions", "--cluster", "payments"): "payments",
        ("transactions", "--min-age", "long"): "min_age",
    }.items():
        code, out, err = ask(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert name in err

    SeededCluster(f"sqlite:///{tmp_path / 'txnscope.db'}", "payments").close()
    code, _, err = ask("transactions")
    assert (code, err) == (2, "txnscope transactions: --cluster is missing: choose one of orders, payments\n")
    seeded.close()

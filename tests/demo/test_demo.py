"""`make demo` as a person meets it: what it prints, what it answers, and that nothing of it stays."""

from __future__ import annotations

import http.client
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from deploy.demo.broker import is_free
from deploy.demo.options import BadOption, Options, read
from tests.brokers import free_port

ROOT = Path(__file__).parents[2]
MARK = "DEMO_TEST_MARK"


class Demo:
    """`python -m deploy.demo` in a group of its own; every process that comes from it carries a mark."""

    def __init__(self, scratch: Path, **environment: str) -> None:
        self.scratch, self.mark, self.said = scratch, uuid4().hex, ""
        self.kafka_port = free_port()
        self.port = free_port()
        ports = {"PORT": str(self.port), "KAFKA_PORT": str(self.kafka_port), "TMPDIR": str(scratch), MARK: self.mark}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "deploy.demo"],
            cwd=ROOT,
            env=os.environ | ports | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def read_until(self, text: str, timeout_s: float = 200) -> None:
        assert self.process.stdout is not None
        give_up = time.monotonic() + timeout_s
        while text not in self.said:
            assert time.monotonic() < give_up, f"no {text!r} in:\n{self.said}"
            if select.select([self.process.stdout], [], [], 0.2)[0]:
                some = os.read(self.process.stdout.fileno(), 65_536)
                assert some, f"ended before it said {text!r}:\n{self.said}"
                self.said += some.decode()

    def end(self, timeout_s: float = 20) -> int:
        """Its exit code, once it ends by itself."""
        self.said += self.process.communicate(timeout=timeout_s)[0].decode()
        return self.process.returncode

    def processes(self) -> dict[int, str]:
        """Command lines of all that came from it and still run."""
        found = {}
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={self.mark}".encode() in (directory / "environ").read_bytes():
                    found[int(directory.name)] = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
        return {pid: command for pid, command in found.items() if command}

    def leftovers(self) -> list[str]:
        ports = [port for port in (self.port, self.kafka_port, self.kafka_port + 1) if not is_free(port)]
        files = [path.name for path in self.scratch.iterdir()]
        return [f"port {port}" for port in ports] + files + list(self.processes().values())


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Demo]]:
    started: list[Demo] = []

    def begin(**environment: str) -> Demo:
        demo = Demo(tmp_path, **environment)
        started.append(demo)
        return demo

    yield begin
    for demo in started:
        for pid in demo.processes():
            os.kill(pid, signal.SIGKILL)
        demo.process.communicate()


def status(url: str) -> int:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=10)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}" if parts.query else parts.path)
        return connection.getresponse().status
    finally:
        connection.close()


def refuse(**environment: str) -> tuple[int, str]:
    """Exit code and stderr of a demo that must not even start."""
    done = subprocess.run(
        [sys.executable, "-m", "deploy.demo"],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_reads_its_environment() -> None:
    assert read({}) == Options(port=8080, kafka_port=19092, kafka_version="4.3.1", seconds=None)
    chosen = {"PORT": "1234", "KAFKA_PORT": "2345", "KAFKA_VERSION": "3.9.2", "DEMO_SECONDS": "7"}
    assert read(chosen) == Options(1234, 2345, "3.9.2", 7.0)
    assert read(dict.fromkeys(chosen, "")) == Options()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "http"),
        ("PORT", "0"),
        ("PORT", "70000"),
        ("PORT", "19093"),  # the controller's
        ("KAFKA_PORT", "65535"),  # none left for the controller
        ("KAFKA_VERSION", "0.8"),
        ("DEMO_SECONDS", "-1"),
        ("DEMO_SECONDS", "soon"),
    ],
)
def test_names_a_bad_value(name: str, value: str) -> None:
    with pytest.raises(BadOption, match=f"^{name}={value} "):
        read({name: value})


def test_a_bad_value_is_one_line_and_exit_code_2() -> None:
    code, said = refuse(PORT="http")
    assert (code, said) == (2, "demo: PORT=http is not a port between 1 and 65535\n")


@pytest.mark.parametrize("name", ["PORT", "KAFKA_PORT"])
@pytest.mark.parametrize("offset", [0, 1])
def test_a_taken_port_is_named_with_a_way_out(name: str, offset: int) -> None:
    first = free_port()
    environment = {"PORT": str(free_port()), "KAFKA_PORT": str(free_port()), name: str(first)}
    taken = first + (offset if name == "KAFKA_PORT" else 0)
    with socket.create_server(("127.0.0.1", taken)):
        code, said = refuse(**environment)
        advice = re.fullmatch(rf"demo: port {taken} is taken, .*: {name}=(\d+) make demo\n", said)
        assert code == 3
        assert advice, said
        assert is_free(int(advice[1]))


@pytest.mark.broker
@pytest.mark.alone
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_shows_every_sight_and_leaves_nothing(start: Callable[..., Demo]) -> None:
    demo = start(DEMO_SECONDS="8")
    demo.read_until("All of it ends in 8 s.")
    urls = re.findall(r"http://\S+$", demo.said, re.MULTILINE)
    assert len({url for url in urls if "/transaction?id=" in url}) == 9
    assert {url: status(url) for url in urls} == dict.fromkeys(urls, 200)
    assert demo.end(8 + 20) == 0
    assert demo.leftovers() == []


@pytest.mark.broker
@pytest.mark.alone
@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("number", "when", "code"),
    [
        (signal.SIGINT, "Ctrl-C ends all of it.", 0),
        (signal.SIGINT, "starting", 0),
        (signal.SIGTERM, "starting", 0),
        (signal.SIGKILL, "starting", -9),
    ],
)
def test_however_it_ends_nothing_runs_on(
    start: Callable[..., Demo], number: signal.Signals, when: str, code: int
) -> None:
    demo = start()
    demo.read_until(when)
    if when == "starting":
        time.sleep(4)  # something of everything is there then, nothing of it is ready
    began = time.monotonic()
    os.killpg(demo.process.pid, number)  # a terminal sends Ctrl-C to the whole group
    assert demo.end() == code
    while (left := demo.processes()) and time.monotonic() - began < 20:
        time.sleep(0.2)
    assert left == {}
    assert code or demo.leftovers() == []


@pytest.mark.broker
@pytest.mark.alone
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_dead_broker_is_named_with_the_end_of_its_log(start: Callable[..., Demo]) -> None:
    demo = start()
    demo.read_until("ready after")
    java = {pid: command for pid, command in demo.processes().items() if "deploy.demo.leash" not in command}
    broker = next(pid for pid, command in java.items() if "kafka.Kafka" in command)
    os.kill(broker, signal.SIGKILL)
    assert demo.end() == 3
    assert "demo: the Kafka broker ended with code 137; its log ends:\n" in demo.said
    assert [path.name for path in demo.scratch.iterdir()] == re.findall(r"the logs are in \S+/(\S+)\n", demo.said)
    assert demo.processes() == {}

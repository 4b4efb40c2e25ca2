"""Tests `make demo` and `make demo-full`: the printed text, the addresses that must answer, and that no process or file
remains."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from deploy.demo.broker import is_free
from deploy.demo.options import BadOption, MonitoringPorts, Options, read
from tests.dashboards.demo_panels import failures_in_demo
from tests.deploy.demo.running import Demo
from tests.helpers.brokers import free_ports
from tests.helpers.paths import ROOT
from tests.helpers.processes import command_of
from tests.helpers.servers import get_json
from tests.helpers.waiting import ANSWER_S, wait_until, wait_until_equal


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Demo]]:
    started: list[Demo] = []

    def begin(*arguments: str, **environment: str) -> Demo:
        demo = Demo(tmp_path, *arguments, **environment)
        started.append(demo)
        return demo

    yield begin
    for demo in started:
        demo.kill()


def status(url: str) -> int:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=ANSWER_S)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}" if parts.query else parts.path)
        return connection.getresponse().status
    finally:
        connection.close()


def refuse(*arguments: str, **environment: str) -> tuple[int, str]:
    """Starts a demo that has to refuse to run. Returns its exit code and stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "deploy.demo", *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=ANSWER_S,
        check=False,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_options_are_read_from_the_environment() -> None:
    assert read({}) == Options(port=8080, kafka_port=19092, kafka_version="4.3.1", seconds=None)
    chosen = {"PORT": "1234", "KAFKA_PORT": "2345", "KAFKA_VERSION": "3.9.2", "DEMO_SECONDS": "7"}
    assert read(chosen) == Options(1234, 2345, "3.9.2", 7.0)
    assert read(dict.fromkeys(chosen, "")) == Options()


def test_ports_of_the_monitoring_are_read_only_with_full() -> None:
    chosen = {"PROMETHEUS_PORT": "1234", "ALERTMANAGER_PORT": "2345"}
    assert read({}, full=True).monitoring_ports == MonitoringPorts(prometheus_port=9090, alertmanager_port=9093)
    assert read(chosen, full=True).monitoring_ports == MonitoringPorts(1234, 2345)
    assert read(chosen | {"PROMETHEUS_PORT": "http"}, full=False).monitoring_ports is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "http"),
        ("PORT", "0"),
        ("PORT", "70000"),
        ("PORT", "19093"),  # the port of the controller
        ("KAFKA_PORT", "65535"),  # no port is left for the controller
        ("KAFKA_VERSION", "0.8"),
        ("DEMO_SECONDS", "-1"),
        ("DEMO_SECONDS", "soon"),
        ("PROMETHEUS_PORT", "0"),
        ("PROMETHEUS_PORT", "8080"),
        ("ALERTMANAGER_PORT", "19093"),
        ("ALERTMANAGER_PORT", "9090"),
    ],
)
def test_a_bad_value_is_named(name: str, value: str) -> None:
    with pytest.raises(BadOption, match=rf"\b{name}={value} "):
        read({name: value}, full=True)


def test_a_bad_value_is_one_line_and_exit_code_2() -> None:
    code, said = refuse(PORT="http")
    assert (code, said) == (2, "demo: PORT=http is not a port between 1 and 65535\n")


@pytest.mark.parametrize(
    ("name", "offset", "who", "target"),
    [
        ("PORT", 0, "the page", "demo"),
        ("KAFKA_PORT", 0, "the broker", "demo"),
        ("KAFKA_PORT", 1, "the broker", "demo"),
        ("PROMETHEUS_PORT", 0, "Prometheus", "demo-full"),
        ("ALERTMANAGER_PORT", 0, "Alertmanager", "demo-full"),
    ],
)
def test_a_taken_port_is_named_with_the_variable_that_changes_it(name: str, offset: int, who: str, target: str) -> None:
    names = ("PORT", "KAFKA_PORT", "PROMETHEUS_PORT", "ALERTMANAGER_PORT")
    ports = dict(zip(names, free_ports(4), strict=True))
    taken = ports[name] + offset
    with socket.create_server(("127.0.0.1", taken)):
        full = ["--full"] if target == "demo-full" else []
        code, said = refuse(*full, **{name: str(port) for name, port in ports.items()})
        way_out = (
            rf"demo: port {taken} is taken, so {who} cannot use it; to use another, run: {name}=(\d+) make {target}\n"
        )
        advice = re.fullmatch(way_out, said)
        assert code == 3
        assert advice, said
        assert is_free(int(advice[1]))


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.in_turns
def test_the_demo_serves_every_address_and_leaves_no_process(start: Callable[..., Demo]) -> None:
    demo = start(DEMO_SECONDS="20")
    demo.read_until("The demo ends in 20 s.")
    urls = demo.urls()
    assert urls[0].endswith("/clusters/demo")
    assert len({url for url in urls if "/transaction?id=" in url}) == 10
    assert {url: status(url) for url in urls} == dict.fromkeys(urls, 200)
    assert demo.end() == 0
    assert demo.leftovers() == []


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.in_turns
def test_an_alert_and_the_way_to_end_it_are_printed_until_ctrl_c(start: Callable[..., Demo]) -> None:
    demo = start("--full")
    demo.read_until("Ctrl-C ends the demo.")
    urls = demo.urls()
    monitoring_urls = [url for url in urls if urlsplit(url).port in demo.ports[2:4]]
    assert status(next(url for url in urls if url.endswith("/notifications"))) == 200
    assert [status(url) for url in monitoring_urls] == [302, 200]  # Prometheus redirects to its pages
    resolve = next(line for line in demo.said.splitlines() if "txnscope resolve" in line)
    number = resolve.removesuffix(" --execute").rpartition(" ")[2]
    finding = next(url for url in urls if url.endswith(f"/findings/{number}") and "/api/" not in url)
    what = "firing    KafkaTransactionHanging (critical): A transaction hangs on refunds-0 of demo"
    demo.read_until(f"{what}  {finding}\n")
    assert "notified  hanging_transaction (critical): " in demo.said
    canary = next(url for url in urls if url.endswith("/canary"))
    wait_until(lambda: get_json(canary), lambda seen: seen["can_run"] == 1, "a transaction of the canary")
    prometheus = f"http://127.0.0.1:{demo.ports[2]}"
    wait_until_equal(lambda: failures_in_demo(prometheus), [], "the dashboard queries that fail or have no result")
    key = Path(resolve.split("--operator-key-file ")[1].split()[0])
    assert (key.stat().st_mode & 0o777, key.parent.parent) == (0o600, demo.scratch)
    os.killpg(demo.process.pid, signal.SIGINT)  # a terminal sends Ctrl-C to the whole group
    assert demo.end() == 0
    wait_until_equal(demo.processes, [], "the processes that are left")
    assert demo.leftovers() == []


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.in_turns
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGKILL, -9)])
def test_a_demo_that_is_ended_while_it_starts_leaves_no_process(
    start: Callable[..., Demo], number: signal.Signals, code: int
) -> None:
    demo = start()
    demo.read_until("starting")
    time.sleep(4)  # by then, every process has started, and none is ready
    os.killpg(demo.process.pid, number)
    assert demo.end() == code
    wait_until_equal(demo.processes, [], "the processes that are left")
    assert code or demo.leftovers() == []


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.in_turns
def test_a_dead_broker_is_named_with_the_end_of_its_log(start: Callable[..., Demo]) -> None:
    demo = start()
    demo.read_until("ready after")
    commands = {process: command_of(process) for process in demo.processes()}
    (broker,) = (
        process for process, it in commands.items() if "kafka.Kafka" in it and "deploy.demo.child_process" not in it
    )
    broker.kill()
    assert demo.end() == 3
    assert "demo: the Kafka broker ended with code 137; its log ends:\n" in demo.said
    assert [path.name for path in demo.scratch.iterdir()] == re.findall(r"the logs are in \S+/(\S+)\n", demo.said)
    assert demo.processes() == []

"""Tests broker, application, Prometheus and Alertmanager together. An operator is notified of a late write, and later
of the end of the hanging transaction.

The rules and routes are the shipped files. Prometheus scrapes every 15 s. The queries of the dashboards run in the same
Prometheus.
"""

from __future__ import annotations

import http.client
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple
from urllib.request import urlopen

import pytest

from dashboards.rules.hanging import NAME
from deploy.demo.broker import Broker
from deploy.demo.monitoring import SCRAPE_EVERY_S, Monitoring, NotInstalled, find_programs
from deploy.demo.options import MonitoringPorts
from deploy.demo.webhook import Notice, Webhook
from deploy.demo.workload.raw_producer import Connection
from tests.benchmarks.watched import CLUSTER, Watched, watching
from tests.dashboards.check_queries import asking, failures
from tests.helpers.brokers import VERSIONS, free_port, free_ports
from tests.helpers.waiting import ANSWER_S, LIMIT_S, wait_for, wait_until_equal
from tests.integration.producers import create_topic
from tests.lab.asking import mark
from tests.lab.hangs import UNGUARDED, commit_one, late_write, old_producer

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]

GOAL_S: Final = 40
TOPIC: Final = "refunds"
NAME_OF_IT: Final = "refunds-1"


class Heard(NamedTuple):
    """A notification, and the time (monotonic) at which the webhook received it."""

    at_s: float
    notice: Notice


class Called:
    """The notifications that the webhook received, in order."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []

    def __call__(self, notice: Notice) -> None:
        self.heard.append(Heard(time.monotonic(), notice))

    def of(self, status: str) -> list[Heard]:
        """Returns the notifications of this status about the hanging transaction."""
        return [one for one in self.heard if (one.notice.name, one.notice.status) == (NAME, status)]


class SetUp(NamedTuple):
    connection: Connection
    watched: Watched
    monitoring: Monitoring
    called: Called


@pytest.fixture
def set_up(tmp_path: Path) -> Iterator[SetUp]:
    """Yields the running servers after the application has read an ordinary transaction, and Prometheus has scraped the
    service."""
    try:
        programs = find_programs()
    except NotInstalled as e:
        pytest.skip(str(e))
    with ExitStack() as running:
        broker = running.enter_context(Broker(VERSIONS[0], free_port(), tmp_path / "kafka", UNGUARDED))
        create_topic(broker.bootstrap, TOPIC, 1)
        connection = running.enter_context(Connection(broker.bootstrap, threading.Event()))
        commit_one(old_producer(connection, "before"), TOPIC, 0)
        watched = running.enter_context(watching(broker.bootstrap))
        called = Called()
        webhook = running.enter_context(Webhook(called))
        monitoring = Monitoring(programs, MonitoringPorts(*free_ports(2)), tmp_path, watched.port, webhook.url)
        running.callback(monitoring.kill)
        watched.wait_until_read(1, LIMIT_S)
        monitoring.start()
        wait_for(lambda: _has_scraped(monitoring), "Prometheus to see the service")
        yield SetUp(connection, watched, monitoring, called)


def test_a_hang_causes_a_webhook_call_and_another_when_it_ends(
    set_up: SetUp, capsys: pytest.CaptureFixture[str]
) -> None:
    connection, watched, monitoring, called = set_up
    hang = late_write(old_producer(connection, NAME_OF_IT), TOPIC, 0)
    written_s = time.monotonic()
    (first, *_) = wait_for(lambda: called.of("firing"), NAME)
    _say(
        capsys,
        f"late write → webhook: {first.at_s - written_s:.1f} s (scrape every {SCRAPE_EVERY_S} s, goal {GOAL_S} s)",
    )
    address = f"http://127.0.0.1:{watched.port}/clusters/{CLUSTER}/findings/"
    assert first.notice.link.startswith(address)
    assert (first.notice.severity, f"{TOPIC}-0 of {CLUSTER}" in first.notice.summary) == ("critical", True)
    status, page = _get(watched.port, first.notice.link.removeprefix(f"http://127.0.0.1:{watched.port}"))
    assert (status, NAME_OF_IT in page) == (200, True)

    _promtool_takes(_get(watched.port, "/metrics")[1])
    wait_until_equal(lambda: _failing(monitoring), [], "the dashboard queries without an answer")

    mark(connection, TOPIC, 0, hang.open, commit=False)
    marked_s = time.monotonic()
    wait_for(lambda: called.of("resolved") or not _fires(monitoring), "the end of the alert")
    how = "notice of it" if called.of("resolved") else "gone from Alertmanager"
    _say(capsys, f"marker → {how}: {time.monotonic() - marked_s:.1f} s")
    assert [one.notice.link for one in called.of("firing")] == [first.notice.link], (
        "there must be only one notification for one transaction"
    )


def _say(capsys: pytest.CaptureFixture[str], line: str) -> None:
    """Prints a measured time. The test does not assert it."""
    with capsys.disabled():
        sys.stdout.write(f"\n{line}\n")


def _has_scraped(monitoring: Monitoring) -> bool:
    """Returns whether Prometheus has scraped the service. Checks first whether Prometheus is ready: while Prometheus
    replays its log, it listens, but refuses every query."""
    try:
        with urlopen(f"{monitoring.prometheus}/-/ready", timeout=ANSWER_S):
            pass
    except OSError:  # also HTTPError, because Prometheus answers 503 until it is ready
        return False
    return bool(asking(monitoring.prometheus)("query", {"query": "kafka_txn_hanging_transactions"})["result"])


def _fires(monitoring: Monitoring) -> bool:
    port = int(monitoring.alertmanager.rpartition(":")[2])
    status, alerts = _get(port, f"/api/v2/alerts?filter=alertname%3D{NAME}")
    assert status == 200
    return alerts.strip() != "[]"


def _promtool_takes(metrics: str) -> None:
    promtool = shutil.which("promtool")
    assert promtool is not None
    done = subprocess.run(
        [promtool, "check", "metrics"], input=metrics, capture_output=True, text=True, timeout=ANSWER_S, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def _failing(monitoring: Monitoring) -> list[str]:
    """Returns the dashboard queries without an answer. If there are any, waits for 5 s before returning, because a
    query of a rate has no answer before two scrapes."""
    found = failures(monitoring.prometheus)
    if found:
        time.sleep(5)
    return found


def _get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()

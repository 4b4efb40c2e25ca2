"""Tests that every event reaches a receiver, and that the events of one finding arrive in order, although the service
is killed again and again, and the receiver fails for a while."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.helpers.brokers import free_port
from tests.helpers.findings import WithFindings, observe
from tests.helpers.paths import ROOT
from tests.helpers.stores import NOW_MS
from tests.helpers.waiting import LIMIT_S, wait_until
from tests.service.notifications.receiving import Endpoint, endpoint

KILLS = 4
FAILURES = 6


def stored(cluster: WithFindings) -> None:
    cluster.read()


pytestmark = pytest.mark.cluster(stored=stored)


@contextmanager
def served(cluster: WithFindings, config: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "service.cli", "serve", "--store", cluster.url, "--port", str(port)]
    with (config.parent / "log").open("ab") as log:
        process = subprocess.Popen([*command, "--config", str(config)], cwd=ROOT, stderr=log, stdout=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait(LIMIT_S)


def events_at(hook: Endpoint) -> dict[str, list[str]]:
    """Returns the events that the receiver accepted, keyed by finding. An event that arrived several times counts once,
    at its first arrival."""
    found: dict[str, dict[str, int]] = {}
    for request in list(hook.taken):
        body = request.json
        key = f"{body['event']} {body['sequence']}"
        found.setdefault(body["finding"]["id"], {}).setdefault(key, body["sequence"])
    return {finding: list(events) for finding, events in found.items()}


@pytest.mark.in_turns
def test_no_event_is_lost_or_overtaken_over_kills_and_failures(cluster: WithFindings, tmp_path: Path) -> None:
    random, ending, written = Random(7), threading.Event(), 0

    def write() -> None:
        """Stores a round every half second. The findings about ten ids open in some rounds and end in others."""
        nonlocal written
        while not ending.wait(0.5):
            written += 1
            names = [b"pay-%d" % number for number in range(10) if (number + written) % 3]
            cluster.see(*(observe(name=name) for name in names), now_ms=NOW_MS + written)

    config = tmp_path / "txnscope.toml"
    with endpoint() as hook:
        config.write_text(f'[[notify]]\nname = "hook"\nkind = "webhook"\nurl = "{hook.url}"\n')
        port = free_port()
        with served(cluster, config, port):
            cluster.see(observe(name=b"first"), now_ms=NOW_MS)
            wait_until(lambda: len(hook.taken), bool, "the first notification")
        writing = threading.Thread(target=write)
        writing.start()
        try:
            for _ in range(KILLS):
                hook.answers = [random.choice((200, 503, 500)) for _ in range(FAILURES)]
                with served(cluster, config, port):
                    wait_for_more(hook, random.randint(5, 40))
        finally:
            ending.set()
            writing.join()
        cluster.see(now_ms=NOW_MS + written + 1)
        sent = sequences(cluster)
        with served(cluster, config, port):
            wait_until(lambda: got(hook), lambda have: have >= sent, "every event of the store")
        for finding, events in events_at(hook).items():
            numbers = [int(event.split()[1]) for event in events]
            assert numbers == sorted(numbers), (finding, events)


def wait_for_more(hook: Endpoint, number: int) -> None:
    wanted = len(hook.taken) + number
    wait_until(lambda: len(hook.taken), lambda has: has >= wanted, f"{number} more notifications")


def sequences(cluster: WithFindings) -> set[int]:
    with cluster.engine.connect() as connection:
        return set(connection.exec_driver_sql("SELECT sequence FROM finding_events").scalars())


def got(hook: Endpoint) -> set[int]:
    return {request.json["sequence"] for request in list(hook.taken)}

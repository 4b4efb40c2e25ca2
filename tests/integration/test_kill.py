"""`kill -9` of each process of `txnscope watch` in the middle of load: counts, causes, history stay exactly right."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from deploy.demo.broker import Broker
from service.store.schema import id_minutes, transactional_ids, transitions
from tests.brokers import free_port
from tests.integration.application import Ingest, running
from tests.integration.kafka_says import completed
from tests.integration.producers import create_topic, load
from tests.waiting import ANSWER_S, wait_for, wait_until_equal

pytestmark = [pytest.mark.broker, pytest.mark.spark]


class Watch(Ingest):
    """`txnscope watch`: the supervisor with the application and the service below it."""

    def start(self, module: str = "service.cli") -> Watch:
        self.port = free_port()
        self._run(module, "watch", *self._flags, "--port", str(self.port))
        return self

    def pids(self, words: str) -> list[int]:
        """Processes that have our store in their environment, with these words in their command lines; oldest first."""
        ours = f"TXNSCOPE_STORE={self.url}".encode()
        found = {}
        for proc in Path("/proc").iterdir():
            try:
                fields = (proc / "stat").read_text().rpartition(")")[2].split()
                command = (proc / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                is_ours = ours in (proc / "environ").read_bytes().split(b"\0")
            except (OSError, ValueError, IndexError):
                continue
            if is_ours and words in command:
                found[int(proc.name)] = int(fields[19])
        return sorted(found, key=lambda pid: found[pid])

    def counts_over_rest(self, name: str) -> tuple[int, int]:
        url = f"http://127.0.0.1:{self.port}/api/v1/clusters/{self.name}/transaction?id={name}"
        with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:
            counts: dict[str, Any] = json.load(answer)["counts"]
        return counts["commits"], sum(counts["aborts"].values())


def test_each_process_in_turn(broker_431: Broker, tmp_path: Path) -> None:
    create_topic(broker_431.bootstrap, "killed")
    names = [f"killed-{n}" for n in range(3)]
    with running(Watch(broker_431.bootstrap, tmp_path)) as app:
        with load(broker_431.bootstrap, "killed", names):
            app.wait_for_more_commits(names)
            *_, worker = wait_for(lambda: app.pids("pyspark.daemon")[1:], "a Python worker")
            (driver,), (service,) = app.pids("-m spark_jobs"), app.pids("service.cli serve")
            for victim in (worker, driver, service):
                os.kill(victim, signal.SIGKILL)
                app.wait_for_more_commits(names)
            wait_for(lambda: set(app.pids("service.cli serve")) - {service}, "another service")
            time.sleep(1)
        app.wait_until_read()
        truth = {name: ends for name, ends in completed(broker_431, broker_431.bootstrap).items() if name in names}
        wait_until_equal(lambda: {name: app.counts()[name] for name in names}, truth, f"the counts ({app.log})")
        assert app.gaps() == []
        told_once_and_alike(app, names)
        wait_until_equal(
            lambda: {name: app.counts_over_rest(name) for name in names},
            truth,
            f"the counts over REST ({app.log})",
            retry_on=(URLError,),  # the other service may not listen yet
        )


def told_once_and_alike(app: Ingest, names: list[str]) -> None:
    """Rows, minutes and history of an id tell the same number of ends; old clients' aborts are certain."""
    rows = {r.transactional_id.decode(): r for r in app.rows(transactional_ids)}
    minutes, aborts = Counter[tuple[str, str]](), Counter[str]()
    for minute in app.rows(id_minutes):
        minutes[minute.transactional_id.decode(), "commits"] += minute.commits
        minutes[minute.transactional_id.decode(), "aborts"] += minute.aborts_client
    for r in app.rows(transitions):
        aborts[r.transactional_id.decode()] += (r.cause, r.confidence) == ("client_abort", "certain")
    for name in names:
        counted = (rows[name].commits, rows[name].aborts_client)
        assert (minutes[name, "commits"], minutes[name, "aborts"]) == counted
        assert aborts[name] == counted[1]

"""`kill -9` of one process of the application in the middle of load: counts, causes and history stay exactly right."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from deploy.demo.broker import Broker
from service.store.schema import id_minutes, transactional_ids, transitions
from tests.integration.application import Ingest, ingesting, wait_for
from tests.integration.kafka_says import completed
from tests.integration.producers import create_topic, load

pytestmark = [pytest.mark.broker, pytest.mark.spark]


def workers(app: Ingest) -> list[int]:
    """Python processes that run Spark's tasks: forked off the daemon, all in the application's session."""
    session = os.getsid(app.process.pid)
    found = {}
    for proc in Path("/proc").iterdir():
        try:
            fields = (proc / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and b"pyspark.daemon" in (proc / "cmdline").read_bytes():
                found[int(proc.name)] = int(fields[1])
        except (OSError, ValueError, IndexError):
            continue
    return [pid for pid, parent in found.items() if parent in found]


def test_a_python_worker(broker_431: Broker, tmp_path: Path) -> None:
    create_topic(broker_431.bootstrap, "workers")
    names = [f"worker-{n}" for n in range(3)]
    with ingesting(broker_431.bootstrap, tmp_path) as app:
        with load(broker_431.bootstrap, "workers", names):
            app.wait_for_more_commits(names)
            for pid in wait_for(lambda: workers(app), "a worker"):
                os.kill(pid, signal.SIGKILL)
            app.wait_for_more_commits(names)
            time.sleep(1)
        app.wait_until_read()
        truth = {name: ends for name, ends in completed(broker_431, broker_431.bootstrap).items() if name in names}
        app_counts = {name: ends for name, ends in app.counts().items() if name in names}
        assert app_counts == truth
        assert app.gaps() == []
        told_once_and_alike(app, names)


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

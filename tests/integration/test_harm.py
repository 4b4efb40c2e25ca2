"""Tests that kill and freeze each kind of process of `txnscope watch` under load. Every process continues or is
replaced, and counts stay exact.

`make soak` measures how fast the processes recover (docs/killed-and-frozen.md), and also harms pairs of processes, an
idle application, and an application during its first read.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from deploy.demo.broker import Broker
from service.store.schema import id_minutes, transactional_ids, transitions
from spark_jobs.runtime.java import archived_classes, find_java
from tests.harm.rounds import FREEZE, KILL, harm
from tests.harm.watched import (
    DAEMON,
    DRIVER,
    FORK_SERVER,
    JVM,
    KINDS,
    PLANNER,
    SERVICE,
    SUPERVISOR,
    WORKER,
    Watch,
    restarted,
)
from tests.helpers.waiting import wait_until_equal
from tests.integration.application import Ingest
from tests.integration.kafka_tools import completed
from tests.integration.producers import create_topic, load

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]

IDS = ["harmed-0", "harmed-1", "harmed-2"]


def test_counts_stay_exact_when_every_kind_of_process_is_killed(broker_431: Broker, tmp_path: Path) -> None:
    create_topic(broker_431.bootstrap, "killed")
    with restarted(Watch(broker_431.bootstrap, tmp_path)) as app:
        app.wait_until_counting()
        assert archived_classes(find_java(os.environ)).name in Path(f"/proc/{app.victim(JVM).pid}/maps").read_text(), (
            "the JVM does not use the archive of classes, so it starts slowly"
        )
        with load(broker_431.bootstrap, "killed", IDS):
            for kind in KINDS:
                harm(app, KILL, [kind])
                app.wait_for_more_commits(IDS)
        _is_exact(app, broker_431)


@pytest.mark.alone
def test_counts_stay_exact_when_every_kind_of_process_is_frozen(
    broker_392: Broker, broker_431: Broker, tmp_path: Path
) -> None:
    """A freeze is noticed after about half a minute. On a busy machine it is noticed after minutes, because time counts
    only in part while other processes of the application wait for a processor. A freeze of the daemon or the fork
    server is not noticed while nothing has to be forked. To save time, two processes are frozen together if different
    processes notice the two freezes."""
    create_topic(broker_392.bootstrap, "frozen")
    with restarted(Watch(broker_392.bootstrap, tmp_path)) as app:
        app.wait_until_counting()
        with load(broker_392.bootstrap, "frozen", IDS):
            for kinds in ([PLANNER, SERVICE], [WORKER, DAEMON], [JVM], [DRIVER, FORK_SERVER], [SUPERVISOR]):
                harm(app, FREEZE, kinds)
                app.wait_for_more_commits(IDS)
        _is_exact(app, broker_392, broker_431)


def _is_exact(app: Watch, broker: Broker, tool: Broker | None = None) -> None:
    app.wait_until_read()
    truth = {name: ends for name, ends in completed(tool or broker, broker.bootstrap).items() if name in IDS}
    wait_until_equal(lambda: {name: app.counts()[name] for name in IDS}, truth, f"the counts; {app.log}")
    assert app.gaps() == []
    assert_the_same_ends_everywhere(app, IDS)
    assert {name: app.counts_over_rest(name) for name in IDS} == truth
    said = app.log.read_text()
    assert "Traceback" not in said
    assert "\tat " not in said


def assert_the_same_ends_everywhere(app: Ingest, names: list[str]) -> None:
    """Asserts that the row and the counts by minute of each id have the same numbers of commits and aborts, and that
    the history of the id has the same number of aborts. Expects that clients caused all aborts."""
    rows = {r.transactional_id.decode(): r for r in app.rows(transactional_ids)}
    minutes, aborts = Counter[tuple[str, str]](), Counter[str]()
    for minute in app.rows(id_minutes):
        minutes[minute.transactional_id.decode(), "commits"] += minute.commits
        minutes[minute.transactional_id.decode(), "aborts"] += minute.aborts_client
    for r in app.rows(transitions):
        aborts[r.transactional_id.decode()] += (r.cause, r.confidence) == ("client_abort", "likely")
    for name in names:
        counted = (rows[name].commits, rows[name].aborts_client)
        assert (minutes[name, "commits"], minutes[name, "aborts"]) == counted
        assert aborts[name] == counted[1]

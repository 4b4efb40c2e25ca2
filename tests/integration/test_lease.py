"""Tests of two applications for one cluster, on hosts whose clocks differ by an hour. One application writes, and the
other one is the standby. The standby takes over when the writing application is killed, frozen or stuck."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest

from deploy.demo.broker import Broker
from service.store.schema import leases
from tests.conftest import MakeBroker
from tests.helpers.hosts import Host
from tests.helpers.postgres import Postgres
from tests.helpers.processes import with_environment
from tests.helpers.waiting import wait_for, wait_until_equal
from tests.integration.application import Ingest
from tests.integration.kafka_tools import completed
from tests.integration.producers import create_topic, load

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]

HOUR_S = 3_600
IDS = ["leased-0", "leased-1"]
PLANNER = "python_streamin"  # the process name that a planner gives itself; Linux truncates it
STANDS_BY = "another instance writes this cluster: standing by"


class Pair:
    """The applications on the hosts `ahead` and `right`, which use one store."""

    def __init__(self, bootstrap: str, url: str, folder: Path) -> None:
        self.ahead, self.right = (
            self._application(bootstrap, url, folder, Host(folder, name, ahead_s))
            for name, ahead_s in (("ahead", HOUR_S), ("right", 0))
        )

    @staticmethod
    def _application(bootstrap: str, url: str, folder: Path, host: Host) -> Ingest:
        directory = folder / host.name
        directory.mkdir()
        return Ingest(bootstrap, directory, host=host, url=url)

    def lease(self) -> tuple[str, int]:
        """Returns the host of the lease holder, and the epoch of the lease."""
        (row,) = self.right.rows(leases)
        return row.owner.partition(":")[0], row.epoch

    def renewed_at_ms(self) -> int:
        (row,) = self.right.rows(leases)
        return int(row.renewed_at_ms)


@contextmanager
def pair(bootstrap: str, url: str, folder: Path) -> Iterator[Pair]:
    """Runs both applications. `ahead` holds the lease, and `right` is the standby."""
    apps = Pair(bootstrap, url, folder)
    try:
        apps.ahead.start().wait_until_counting()
        stands_by(apps.right.start())
        yield apps
    finally:
        for app in (apps.ahead, apps.right):
            os.killpg(app.process.pid, signal.SIGCONT)
            app.kill()


def stands_by(app: Ingest, times: int = 1) -> None:
    def said() -> bool:
        app.is_running()
        return app.log.read_text().count(STANDS_BY) >= times

    wait_for(said, f"the application to stand by; {app.log}")


def test_a_killed_frozen_or_stuck_holder_is_replaced_and_writes_no_more(
    make_broker: MakeBroker, broker_431: Broker, postgres: Postgres, tmp_path: Path
) -> None:
    broker = make_broker()
    create_topic(broker.bootstrap, "leased")
    with postgres.database(is_empty=True) as url, pair(broker.bootstrap, url, tmp_path) as apps:
        ahead, right = apps.ahead, apps.right
        with load(broker.bootstrap, "leased", IDS):
            ahead.wait_for_more_commits(IDS)

            for ahead_s in (-HOUR_S, HOUR_S):  # the holder's clock jumps, and two renewals follow
                assert ahead.host is not None
                ahead.host.set_clock(ahead_s)
                before = apps.renewed_at_ms()
                for _ in range(2):
                    wait_for(lambda: apps.renewed_at_ms() != before, "a renewal of the lease")  # noqa: B023
                    before = apps.renewed_at_ms()
            assert apps.lease() == ("ahead", 1)

            os.killpg(ahead.process.pid, signal.SIGSTOP)
            wait_until_equal(apps.lease, ("right", 2), "the lease after the holder was frozen")
            right.wait_for_more_commits(IDS)
            os.killpg(ahead.process.pid, signal.SIGCONT)
            stands_by(ahead)
            assert "lease of 'ahead:" in ahead.log.read_text(), "the log must name the lease as the reason for the end"

            right.kill()
            wait_until_equal(apps.lease, ("ahead", 3), "the lease after the holder was killed")
            ahead.wait_for_more_commits(IDS)

            stands_by(right.start(), times=2)
            planner_of(ahead).suspend()
            wait_until_equal(apps.lease, ("right", 4), "the lease after a part of the holder was frozen")
            right.wait_for_more_commits(IDS)
        right.wait_for_counts(completed(broker_431, broker.bootstrap))
        assert right.gaps() == []


def test_on_sqlite_a_frozen_holder_that_wakes_writes_nothing_more(
    make_broker: MakeBroker, broker_431: Broker, tmp_path: Path
) -> None:
    broker = make_broker()
    create_topic(broker.bootstrap, "leased")
    file = tmp_path / "store.db"
    with pair(broker.bootstrap, f"sqlite:///{file}", tmp_path) as apps:
        with load(broker.bootstrap, "leased", IDS):
            apps.ahead.wait_for_more_commits(IDS)
            freeze_between_writes(apps.ahead, file)
            wait_until_equal(apps.lease, ("right", 2), "the lease after the holder was frozen")
            apps.right.wait_for_more_commits(IDS)
            os.killpg(apps.ahead.process.pid, signal.SIGCONT)
            stands_by(apps.ahead)
        apps.right.wait_for_counts(completed(broker_431, broker.bootstrap))
        assert apps.lease() == ("right", 2)


def freeze_between_writes(app: Ingest, file: Path) -> None:
    """Freezes the application between two writes. A process that is frozen during a write keeps the lock of SQLite
    until the process ends or continues."""

    def is_free() -> bool:
        os.killpg(app.process.pid, signal.SIGSTOP)
        with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                os.killpg(app.process.pid, signal.SIGCONT)
                return False
            connection.execute("ROLLBACK")
        return True

    wait_for(is_free, "a moment between two writes")


def planner_of(app: Ingest) -> psutil.Process:
    """Returns one of the processes that plan the reads."""
    assert app.host is not None
    own = with_environment("TXNSCOPE_TEST_HOST", app.host.name)
    return wait_for(lambda: [process for process in own if process.name() == PLANNER], "a planner")[-1]

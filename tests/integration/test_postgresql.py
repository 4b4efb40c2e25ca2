"""Tests of the application over PostgreSQL. Counts stay exact through a restart and a failover of the server, a locked
table, and the death of the driver."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from deploy.demo.broker import Broker
from service.store.schema import source_status
from tests.helpers.postgres import Postgres
from tests.helpers.waiting import wait_for, wait_until_equal
from tests.integration.application import Ingest, running
from tests.integration.producers import create_topic, open_producer, transact

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]


def test_counts_are_exact_through_server_faults_and_a_killed_driver(broker_431: Broker, tmp_path: Path) -> None:
    create_topic(broker_431.bootstrap, "postgresql")
    producer = open_producer(broker_431.bootstrap, "postgresql")
    transact(producer, "postgresql")  # before counting begins
    with (
        Postgres() as server,
        server.database() as url,
        running(Ingest(broker_431.bootstrap, tmp_path, url=url)) as app,
    ):
        transact(producer, "postgresql")
        wait_until_equal(lambda: counted(app), (1, 0), f"the first count ({app.log})")

        server.stop()
        wait_for(
            lambda: "the store does not take the batch" in app.log.read_text(),
            "the log line about the unavailable store",
        )
        for number in range(6):
            transact(producer, "postgresql", commit=number % 2 == 0)
        server.start()
        wait_until_equal(lambda: counted(app), (4, 3), f"the counts after the restart ({app.log})")
        wait_until_equal(lambda: errors(app), {None}, f"the errors of all sources ({app.log})")
        assert "reading stopped" not in app.log.read_text()

        demote(server)
        transact(producer, "postgresql")
        wait_for(lambda: "read-only" in app.log.read_text(), "the log line about the read-only server")
        server.execute("SELECT pg_promote()")
        wait_until_equal(lambda: counted(app), (5, 3), f"the counts after the failover ({app.log})")

        with psycopg.connect(url) as migration:
            migration.execute("LOCK TABLE transactional_ids IN ACCESS EXCLUSIVE MODE")
            transact(producer, "postgresql", commit=False)
            wait_for(lambda: "lock timeout" in app.log.read_text(), "the log line about the lock timeout")
        wait_until_equal(lambda: counted(app), (5, 4), f"the counts after the lock ({app.log})")
        wait_until_equal(lambda: errors(app), {None}, f"the errors of all sources ({app.log})")
        assert "reading stopped" not in app.log.read_text()

        app.kill()
        transact(producer, "postgresql")
        app.start()
        wait_until_equal(lambda: counted(app), (6, 4), f"the counts after the kill ({app.log})")


def demote(server: Postgres) -> None:
    """Restarts the server as a standby, as if another server had replaced it as the primary."""
    server.stop()
    (server.directory / "data" / "standby.signal").touch()
    server.start()


def errors(app: Ingest) -> set[str | None]:
    return {row.error for row in app.rows(source_status)}


def counted(app: Ingest) -> tuple[int, int]:
    """Returns (commits, aborts) of this test's id, or (-1, -1) if the store does not have the id."""
    return app.counts().get("postgresql", (-1, -1))

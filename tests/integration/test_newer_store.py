"""Tests the real application on a store that a newer version migrates while the application runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.demo.broker import Broker
from service.store.engine import open_engine
from tests.helpers.brokers import on_broker
from tests.helpers.next_version import migrate_by_next_version
from tests.helpers.waiting import LIMIT_S
from tests.integration.application import Ingest, running
from tests.integration.kafka_tools import completed
from tests.integration.producers import create_topic, load

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]

IDS = ["newer-0", "newer-1"]


def migrate(app: Ingest, directory: Path, *, only_adds: bool) -> None:
    engine = open_engine(app.url)
    migrate_by_next_version(engine, directory, only_adds=only_adds)
    engine.dispose()


@on_broker("4.3.1")
def test_the_application_counts_on_after_a_newer_version_added_to_the_store(broker: Broker, tmp_path: Path) -> None:
    """The application also starts again on the newer store, as after a rollback."""
    create_topic(broker.bootstrap, "newer")
    with running(Ingest(broker.bootstrap, tmp_path)) as app:
        with load(broker.bootstrap, "newer", IDS):
            app.wait_for_more_commits(IDS)
            migrate(app, tmp_path, only_adds=True)
            app.wait_for_more_commits(IDS)
            assert app.stop() == 0
            app.start()
            app.wait_for_more_commits(IDS)
        app.wait_until_read()
        counted = {name: ends for name, ends in completed(broker, broker.bootstrap).items() if name in IDS}
        app.wait_for_counts(app.counts() | counted)
        assert app.gaps() == []
        assert app.log.read_text().count("a newer version of txnscope has added to the store") == 1


@on_broker("4.3.1")
def test_the_application_ends_in_one_line_if_the_newer_tables_shut_it_out(broker: Broker, tmp_path: Path) -> None:
    with running(Ingest(broker.bootstrap, tmp_path)) as app:
        migrate(app, tmp_path, only_adds=False)
        assert app.process.wait(LIMIT_S) == 2
        log = app.log.read_text()
        assert log.count("has the tables of revision r9998: it is newer than this version of txnscope") == 1
        assert "Traceback" not in log

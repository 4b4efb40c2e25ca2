"""Several clusters in one store, each with an application of its own."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from deploy.demo.broker import CLUSTER_ID, Broker
from service.store import clusters
from service.store.engine import open_engine
from tests.conftest import MakeBroker
from tests.helpers.migrated import migrated
from tests.helpers.postgres import Postgres
from tests.helpers.waiting import LIMIT_S
from tests.integration.application import Ingest
from tests.integration.kafka_tools import completed
from tests.integration.producers import create_topic, load
from tests.service.store.logs import NOW_MS

pytestmark = [pytest.mark.broker, pytest.mark.spark]

NAMES = ["shared-0", "shared-1"]
"""The same ids in both clusters."""


def test_two_clusters_begin_in_one_store_at_the_same_moment_and_harm_each_other_in_nothing(
    make_broker: MakeBroker, broker_431: Broker, postgres: Postgres, tmp_path: Path
) -> None:
    with postgres.database(is_empty=True) as url:
        apps = []
        for version in ("3.9.2", "4.3.1"):
            broker = make_broker(version)
            create_topic(broker.bootstrap, "shared")
            directory = tmp_path / version
            directory.mkdir()
            apps.append(Ingest(broker.bootstrap, directory, name=f"kafka-{version}"))
            apps[-1].url = url
        calm, troubled = apps
        try:
            for app in apps:  # neither finds a table of ours
                app.start()
            for app in apps:
                app.wait_until_counting()
            with load(calm.bootstrap, "shared", NAMES), load(troubled.bootstrap, "shared", NAMES):
                for app in apps:
                    app.wait_for_more_commits(NAMES)
                for harm in (signal.SIGSTOP, signal.SIGKILL):
                    troubled.process.send_signal(harm)
                    calm.wait_for_more_commits(NAMES)
                troubled.kill()
                calm.wait_for_more_commits(NAMES)
                troubled.start()
                troubled.wait_for_more_commits(NAMES)
            for app in apps:
                app.wait_for_counts(completed(broker_431, app.bootstrap))
                assert app.gaps() == []
            assert "another instance writes" not in calm.log.read_text()
        finally:
            for app in apps:
                app.stop()


def test_a_second_name_for_a_cluster_is_refused_in_one_line(broker_431: Broker, tmp_path: Path) -> None:
    """Its first name has not been read for long, and keeps it."""
    app = Ingest(broker_431.bootstrap, tmp_path, name="second")
    engine = migrated(open_engine(app.url))
    clusters.bind(engine, "first", CLUSTER_ID, NOW_MS)
    engine.dispose()
    app.start()
    assert app.process.wait(LIMIT_S) == 2
    (error,) = (line for line in app.log.read_text().splitlines() if " ERROR " in line)
    assert error.endswith(
        f" ERROR Kafka cluster '{CLUSTER_ID}' has the name 'first' in this store, not 'second':"
        " choose --cluster first or another --store"
    )
    assert "Traceback" not in app.log.read_text()

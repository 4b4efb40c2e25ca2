"""Tests of several clusters in one store, each with an application of its own."""

from __future__ import annotations

import re
import signal
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from deploy.demo.broker import CLUSTER_ID, Broker
from service.store import clusters
from service.store.engine import open_engine
from tests.conftest import MakeBroker
from tests.helpers.brokers import free_port
from tests.helpers.migrated import migrated
from tests.helpers.postgres import Postgres
from tests.helpers.servers import get_json
from tests.helpers.waiting import ANSWER_S, LIMIT_S, wait_until_equal
from tests.integration.application import Ingest
from tests.integration.kafka_tools import completed
from tests.integration.producers import create_topic, load, open_producer, transact
from tests.service.store.logs import NOW_MS

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]

NAMES = ["shared-0", "shared-1"]
"""Ids that exist in both clusters."""


def test_two_clusters_of_one_store_do_not_disturb_each_other(
    make_broker: MakeBroker, broker_431: Broker, postgres: Postgres, tmp_path: Path
) -> None:
    with postgres.database(is_empty=True) as url:
        apps = []
        for version in ("3.9.2", "4.3.1"):
            broker = make_broker(version)
            create_topic(broker.bootstrap, "shared")
            directory = tmp_path / version
            directory.mkdir()
            apps.append(Ingest(broker.bootstrap, directory, name=f"kafka-{version}", url=url))
        calm, troubled = apps
        try:
            for app in apps:  # at the start of both applications the store has no tables
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


class WatchOfSeveral(Ingest):
    """Runs `txnscope watch` with a `[[clusters]]` table for each of `brokers`."""

    def __init__(self, brokers: dict[str, Broker], directory: Path) -> None:
        super().__init__("", directory)
        self._brokers = brokers
        self.port = free_port()
        self._config = directory / "txnscope.toml"
        self._config.write_text(
            f"store = '{self.url}'\nport = {self.port}\ncheckpoint = '{directory}/checkpoint'\n"
            + "".join(
                f"[[clusters]]\nname = '{name}'\nbootstrap_servers = '{broker.bootstrap}'\n"
                for name, broker in brokers.items()
            )
        )

    def start(self, module: str = "service.cli") -> WatchOfSeveral:
        self._run(module, "watch", "--config", str(self._config))
        return self

    def wait_until_counting(self) -> None:
        """Waits until the first start is complete for every cluster."""
        for name in self._brokers:
            self.name = name
            super().wait_until_counting()

    def wait_for_commits(self, cluster: str, commits: int) -> None:
        """Waits until the service returns this number of commits for the transactional.id `shared-0` of the cluster."""
        url = f"http://127.0.0.1:{self.port}/api/v1/clusters/{cluster}/transaction?id=shared-0"

        def counted() -> int | None:
            self.is_running()
            with suppress(OSError):
                return int(get_json(url)["counts"]["commits"])
            return None

        with self._showing_its_log():
            wait_until_equal(counted, commits, f"the commits of {cluster}")

    def wait_for_order(self, *clusters: str) -> None:
        """Waits until `/` lists the clusters in this order."""

        def listed() -> list[str]:
            self.is_running()
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=ANSWER_S) as answer:
                return re.findall(r'<h2><a href="[^"]*">([^<]*)</a>', answer.read().decode())

        with self._showing_its_log():
            wait_until_equal(listed, list(clusters), "the order of the clusters")


def test_watch_continues_while_the_brokers_of_one_cluster_are_away(make_broker: MakeBroker, tmp_path: Path) -> None:
    brokers = {"billing": make_broker("3.9.2"), "orders": make_broker("4.3.1")}
    for broker in brokers.values():
        create_topic(broker.bootstrap, "shared")
    watch = WatchOfSeveral(brokers, tmp_path).start()
    try:
        watch.wait_until_counting()
        producers = {name: open_producer(broker.bootstrap, "shared-0") for name, broker in brokers.items()}
        for name, producer in producers.items():
            transact(producer, "shared")
            watch.wait_for_commits(name, 1)
        watch.wait_for_order("billing", "orders")
        brokers["orders"].stop()
        watch.wait_for_order("orders", "billing")
        transact(producers["billing"], "shared")
        watch.wait_for_commits("billing", 2)
        brokers["orders"].start()
        transact(producers["orders"], "shared")
        watch.wait_for_commits("orders", 2)
        watch.wait_for_order("billing", "orders")
    finally:
        assert watch.stop() == 0


def test_a_second_name_for_a_cluster_is_refused_in_one_line(broker_431: Broker, tmp_path: Path) -> None:
    """The cluster got its first name long ago, and has not been read since."""
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

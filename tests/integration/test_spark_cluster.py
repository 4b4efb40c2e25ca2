"""Tests the application on an existing Spark cluster. Counts stay exact when an executor and a worker die, and the log
names missing executors and an unusable Python."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.demo.broker import Broker
from tests.conftest import MakeBroker
from tests.helpers.brokers import on
from tests.helpers.postgres import Postgres
from tests.helpers.spark_cluster import spark_cluster, spark_of_the_image
from tests.helpers.waiting import wait_for
from tests.integration.application import Ingest, running
from tests.integration.kafka_tools import completed
from tests.integration.producers import create_topic, load

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.in_turns]


@on("4.3.1")
def test_counts_stay_exact_when_an_executor_and_a_worker_are_killed(
    version: str,
    make_broker: MakeBroker,
    broker_431: Broker,
    postgres: Postgres,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The application and the executors use only the jars of the job's image."""
    home = spark_of_the_image(tmp_path / "home")
    monkeypatch.setenv("SPARK_HOME", str(home))
    broker = make_broker(version)
    create_topic(broker.bootstrap, "executed")
    names = [f"executed-{n}" for n in range(2)]
    with (
        postgres.database() as url,
        spark_cluster(tmp_path / "spark", workers=2, home=home) as spark,
        running(Ingest(broker.bootstrap, tmp_path, "--spark-master", spark.url, url=url)) as app,
    ):
        assert len(spark.executors()) == 2
        with load(broker.bootstrap, "executed", names):
            app.wait_for_more_commits(names)
            spark.executors()[0].send_signal(signal.SIGKILL)
            app.wait_for_more_commits(names)
            spark.workers[1].kill()
            app.wait_for_more_commits(names)
        app.wait_for_counts(completed(broker_431, broker.bootstrap))
        assert app.gaps() == []
        assert "Traceback" not in app.log.read_text()


def test_the_log_names_a_spark_cluster_without_a_free_worker(broker_431: Broker, tmp_path: Path) -> None:
    with spark_cluster(tmp_path / "spark", workers=0) as spark:
        app = Ingest(broker_431.bootstrap, tmp_path, "--spark-master", spark.url)
        app.start()
        try:
            wait_for(
                lambda: f"no executor of {spark.url} has registered" in app.log.read_text(),
                "the log line about missing executors",
            )
            assert not app.log_status()
            spark.add_worker()
            wait_for(app.log_status, f"the first batch; {app.log}")
            assert f"executors of {spark.url} have registered" in app.log.read_text()
        finally:
            app.stop()


def test_a_python_that_spark_cannot_use_is_named(
    broker_431: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    with spark_cluster(tmp_path / "spark", workers=1) as spark:
        for python, said in (
            (tmp_path / "nowhere" / "python3", f"Spark finds no Python at {tmp_path}/nowhere/python3"),
            (bare / "bin" / "python", "has no module 'pyarrow'"),
        ):
            monkeypatch.setenv("PYSPARK_PYTHON", str(python))
            app = Ingest(broker_431.bootstrap, tmp_path, "--spark-master", spark.url)
            app.start()
            try:
                wait_for(lambda app=app, said=said: said in app.log.read_text(), f"{said}; {app.log}")  # type: ignore[misc]
            finally:
                app.stop()

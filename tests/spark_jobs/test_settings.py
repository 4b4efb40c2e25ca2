"""Tests of the settings of the streaming application, and of their transfer to Spark's readers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from service.domain.findings.rules import Rule, Rules
from service.domain.retention_policy import DEFAULT
from service.kafka.errors import BadClientConfig
from service.settings import SettingsError, for_ingest, load
from spark_jobs.runtime.session import Master
from spark_jobs.settings import IngestSettings, parse
from spark_jobs.source.reader_settings import OPTION, ReaderSettings, WatchedTopics
from tests.helpers.certificates import Authority

BROKER = {"bootstrap_servers": "broker:9092"}
TWO = """
[[clusters]]
name = "orders"
bootstrap_servers = "orders-1:9092"
topics = ["orders-*"]
partitions = "all"

[[clusters]]
name = "billing"
bootstrap_servers = "billing-1:9092"
"""

Passed = Callable[..., IngestSettings]


@pytest.fixture
def passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Passed:
    """Returns a function that turns a settings file and flags of `txnscope ingest` into the application's settings."""
    for name in [name for name in os.environ if name.startswith("TXNSCOPE_")]:
        monkeypatch.delenv(name)
    file = tmp_path / "txnscope.toml"

    def run(text: str = "", *argv: str, **flags: Any) -> IngestSettings:
        file.write_text(text)
        for name, value in for_ingest(load(flags, str(file))).items():
            monkeypatch.setenv(name, value)
        return parse(argv)

    return run


def test_settings_that_are_not_set_have_their_defaults(passed: Passed) -> None:
    found = passed(**BROKER)
    assert (found.store, found.cluster, found.checkpoint) == ("sqlite:///txnscope.db", None, None)
    assert (found.rules, found.keep) == (Rules(), DEFAULT)
    assert (found.watch, found.tails, found.liveness) == (WatchedTopics(), False, None)
    assert found.master == Master()


def test_rules_and_retention_reach_the_application(passed: Passed) -> None:
    found = passed(
        '[keep]\nhistory = "30d"\n'
        '[[rules]]\nprefix = "etl \'1\'-"\nlong_after = "2h"\nfull_history = true\n'
        '[[rules]]\ntopic = "orders*"\nowner = "shop"\nmute_until = 2026-01-01T00:00:00Z\n',
        **BROKER,
    )
    long_etl = Rule("etl '1'-", long_after_ms=7_200_000, full_history=True)
    assert found.rules == Rules((long_etl, Rule(topic="orders*", owner="shop", mute_until_ms=1_767_225_600_000)))
    assert found.keep == DEFAULT._replace(history=30 * 86_400_000)
    assert found.reader.full_history_prefixes == ("etl '1'-",)


def test_topics_reach_the_application_and_its_readers(passed: Passed) -> None:
    found = passed(topics=["orders-*", "pay"], mirrored=["eu.*"], partitions="all", **BROKER)
    assert (found.watch, found.tails) == (WatchedTopics(("orders-*", "pay"), ("eu.*",)), True)
    assert (found.reader.watch, found.reader.tails) == (found.watch, True)


def test_one_of_several_clusters_is_chosen_by_its_name(passed: Passed) -> None:
    orders, billing = passed(TWO, "--cluster", "orders"), passed(TWO, "--cluster", "billing")
    assert (orders.cluster, orders.client.bootstrap_servers, orders.tails) == ("orders", ("orders-1:9092",), True)
    assert (billing.cluster, billing.client.bootstrap_servers, billing.tails) == ("billing", ("billing-1:9092",), False)
    with pytest.raises(SettingsError, match="--cluster is missing: choose one of orders, billing"):
        passed(TWO)
    with pytest.raises(SettingsError, match=r"--cluster pay: .* there are: orders, billing"):
        passed(TWO, "--cluster", "pay")


def test_a_spark_cluster_and_its_settings_reach_the_application(passed: Passed) -> None:
    found = passed(spark_master="spark://m:7077", spark_conf=["spark.driver.host=10.0.0.1", "spark.x=a=b"], **BROKER)
    assert found.master == Master("spark://m:7077", (("spark.driver.host", "10.0.0.1"), ("spark.x", "a=b")))


def test_an_application_without_configuration_is_an_error(passed: Passed, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadClientConfig, match="--bootstrap-servers is missing"):
        passed()
    with pytest.raises(SystemExit):
        passed("", "--port", "1", **BROKER)
    assert capsys.readouterr().err.endswith("unrecognized arguments: --port 1\n")


def test_readers_get_settings_as_text_without_store_and_spark(passed: Passed) -> None:
    found = passed(store="postgresql://me:s3cret@h/db", spark_conf=["spark.x=s3cret"], **BROKER)
    option = found.reader.option
    assert "s3cret" not in str(option)
    assert ReaderSettings.model_validate_json(option[OPTION]) == found.reader
    with pytest.raises(ValidationError):
        ReaderSettings.model_validate_json(option[OPTION].replace("watch", "wacht"))


def test_settings_for_executors_on_other_machines_contain_no_file_names(passed: Passed, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    file = f"security.protocol=SSL\nssl.truststore.location={authority.certificate}\n"
    (tmp_path / "client.properties").write_text(file)
    flags = BROKER | {"kafka_config": str(tmp_path / "client.properties")}
    assert str(tmp_path) in str(passed(**flags).reader.option)
    assert str(tmp_path) not in str(passed(spark_master="spark://m:7077", **flags).reader.option)


def test_internal_and_mirrored_topics_are_never_tailed() -> None:
    watch = WatchedTopics(("*",), ("eu.*",))
    topics = ("pay", "eu.pay", "__transaction_state", "__consumer_offsets")
    assert [topic for topic in topics if watch.tails(topic)] == ["pay"]
    assert [topic for topic in topics if watch.covers(topic)] == ["pay", "__transaction_state", "__consumer_offsets"]

"""What the streaming application takes from its command line, and what from its environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from service import settings
from service.cli.kafka import ingest_arguments
from service.domain.findings.rules import Rule, Rules
from service.domain.retention_policy import DEFAULT
from spark_jobs.runtime.master import Master
from spark_jobs.settings import parse
from spark_jobs.source.watched import WatchedTopics
from tests.helpers.certificates import Authority

FLAGS = ["--bootstrap-servers", "broker:9092"]


def test_the_store_may_come_in_the_environment_and_a_flag_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TXNSCOPE_STORE", raising=False)
    assert parse(FLAGS).store == "sqlite:///txnscope.db"
    monkeypatch.setenv("TXNSCOPE_STORE", "postgresql://me:secret@host/db")
    assert parse(FLAGS).store == "postgresql://me:secret@host/db"
    assert parse([*FLAGS, "--store", "sqlite:///other.db"]).store == "sqlite:///other.db"
    monkeypatch.setenv("TXNSCOPE_STORE", "")
    assert parse(FLAGS).store == "sqlite:///txnscope.db"


def test_what_the_file_says_of_ids_and_of_keeping_reaches_the_application(tmp_path: Path) -> None:
    file = tmp_path / "txnscope.toml"
    file.write_text(
        'bootstrap_servers = "broker:9092"\n[keep]\nhistory = "30d"\n'
        '[[rules]]\nprefix = "etl \'1\'-"\nlong_after = "2h"\nfull_history = true\n'
        '[[rules]]\ntopic = "orders*"\nowner = "shop"\nmute_until = 2026-01-01T00:00:00Z\n'
    )
    arguments = ingest_arguments(settings.load({}, str(file)))
    parsed = parse(arguments[arguments.index("spark_jobs") + 1 :])
    long_etl = Rule("etl '1'-", long_after_ms=7_200_000, full_history=True)
    assert parsed.rules == Rules((long_etl, Rule(topic="orders*", owner="shop", mute_until_ms=1_767_225_600_000)))
    assert parsed.keep == DEFAULT._replace(history=30 * 86_400_000)


@pytest.mark.parametrize("said", ["flags", "environment", "file"])
def test_which_topics_are_watched_reaches_the_application(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags: dict[str, str | list[str] | None] = {"bootstrap_servers": "broker:9092"}
    file = tmp_path / "txnscope.toml"
    file.write_text("")
    if said == "flags":
        flags |= {"topics": ["orders-*", "pay"], "mirrored": ["eu.*"], "partitions": "stalled"}
    elif said == "environment":
        monkeypatch.setenv("TXNSCOPE_TOPICS", "orders-*, pay")
        monkeypatch.setenv("TXNSCOPE_MIRRORED", "eu.*")
    else:
        file.write_text('topics = ["orders-*", "pay"]\nmirrored = ["eu.*"]\npartitions = "stalled"\n')
    arguments = ingest_arguments(settings.load(flags, str(file)))
    parsed = parse(arguments[arguments.index("spark_jobs") + 1 :])
    assert parsed.watch == WatchedTopics(("orders-*", "pay"), ("eu.*",))
    assert parse(FLAGS).watch == WatchedTopics()


@pytest.mark.parametrize("flag", ["--rules", "--keep"])
def test_settings_that_no_command_line_made_are_one_line_and_2(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("nonsense", "[1]", '{"x": 1}', '[{"prefiks": "a"}]'):
        with pytest.raises(SystemExit) as ended:
            parse([*FLAGS, flag, text])
        assert ended.value.code == 2
        assert capsys.readouterr().err.startswith(f"txnscope ingest: argument {flag}: not the settings that")


def test_every_batch_is_read_only_of_topics_that_were_named(capsys: pytest.CaptureFixture[str]) -> None:
    flags: dict[str, str | list[str] | None] = {"bootstrap_servers": "broker:9092", "partitions": "all"}
    arguments = ingest_arguments(settings.load(flags | {"topics": ["pay"]}))
    parsed = parse(arguments[arguments.index("spark_jobs") + 1 :])
    assert (parsed.tails, parsed.watch) == (True, WatchedTopics(("pay",)))
    assert not parse(FLAGS).tails
    with pytest.raises(SystemExit) as ended:
        parse([*FLAGS, "--partitions", "all"])
    assert ended.value.code == 2
    why = "partitions: all needs --topics: it reads every byte of these topics\n"
    assert capsys.readouterr().err == f"txnscope ingest: {why}"


def test_what_is_tailed_is_neither_kafkas_own_nor_copied() -> None:
    watch = WatchedTopics(("*",), ("eu.*",))
    topics = ("pay", "eu.pay", "__transaction_state", "__consumer_offsets")
    assert [topic for topic in topics if watch.tails(topic)] == ["pay"]
    assert [topic for topic in topics if watch.covers(topic)] == ["pay", "__transaction_state", "__consumer_offsets"]


@pytest.mark.parametrize("said", ["flags", "environment", "file"])
def test_the_cluster_for_spark_and_its_settings_reach_the_application(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags: dict[str, str | list[str] | None] = {"bootstrap_servers": "broker:9092"}
    file = tmp_path / "txnscope.toml"
    file.write_text("")
    if said == "flags":
        flags |= {"spark_master": "spark://m:7077", "spark_conf": ["spark.driver.host=10.0.0.1", "spark.x=a=b"]}
    elif said == "environment":
        monkeypatch.setenv("TXNSCOPE_SPARK_MASTER", "spark://m:7077")
        monkeypatch.setenv("TXNSCOPE_SPARK_CONF", '{"spark.driver.host": "10.0.0.1", "spark.x": "a=b"}')
    else:
        file.write_text(
            'spark_master = "spark://m:7077"\n[spark_conf]\n"spark.driver.host" = "10.0.0.1"\n"spark.x" = "a=b"\n'
        )
    loaded = settings.load(flags, str(file))
    arguments = ingest_arguments(loaded)
    assert "a=b" not in " ".join(arguments), "settings may be passwords: they are not on a command line"
    for name, value in settings.for_ingest(loaded).items():
        monkeypatch.setenv(name, value)
    parsed = parse(arguments[arguments.index("spark_jobs") + 1 :])
    assert parsed.master == Master("spark://m:7077", (("spark.driver.host", "10.0.0.1"), ("spark.x", "a=b")))
    assert "SPARK_CONF" in str(settings.for_children(loaded))
    assert "a=b" not in str(settings.for_children(loaded)), "the service starts no Spark"


def test_settings_for_executors_on_other_machines_have_no_names_of_files(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    file = f"security.protocol=SSL\nssl.truststore.location={authority.certificate}\n"
    (tmp_path / "client.properties").write_text(file)
    flags = [*FLAGS, "--kafka-config", str(tmp_path / "client.properties")]
    assert str(tmp_path) in parse(flags).client.to_json()
    assert str(tmp_path) not in parse([*flags, "--spark-master", "spark://m:7077"]).client.to_json()

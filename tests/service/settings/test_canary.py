"""Tests of the table [canary]."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.cli.errors import CommandFailed
from service.cli.kafka import canary_plans
from service.settings import DOCUMENT, Settings, SettingsError, for_ingest, for_service, load


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def settings(text: str, **flags: str) -> Settings:
    Path("txnscope.toml").write_text(text)
    return load(flags, "txnscope.toml")


def test_there_is_no_canary_unless_it_is_asked_for() -> None:
    assert canary_plans(settings("", bootstrap_servers="a:1")) == []


def test_an_empty_table_is_enough() -> None:
    ((clients, table),) = canary_plans(settings("[canary]\n", bootstrap_servers="a:1"))
    assert clients.bootstrap_servers == ("a:1",)
    assert (table.every, table.topic, table.coordinators) == (10_000, "txnscope-canary", ())


def test_the_canary_has_its_own_principal_and_the_same_brokers() -> None:
    Path("canary.properties").write_text("client.id=canary\n")
    Path("reader.properties").write_text("bootstrap.servers=a:1\n")
    ((clients, _),) = canary_plans(
        settings('kafka_config = "reader.properties"\n[canary]\nkafka_config = "canary.properties"\n')
    )
    assert clients.bootstrap_servers == ("a:1",)
    assert clients.file == Path("canary.properties").absolute()


def test_each_cluster_has_a_canary_and_may_have_its_own_table() -> None:
    text = """
        [canary]
        every = "30s"
        [[clusters]]
        name = "orders"
        bootstrap_servers = "orders-1:1"
        [[clusters]]
        name = "billing"
        bootstrap_servers = "billing-1:1"
        [clusters.canary]
        coordinators = [4, 5]
    """
    plans = {clients.bootstrap_servers[0]: table for clients, table in canary_plans(settings(text))}
    assert plans["orders-1:1"].every == 30_000
    assert (plans["billing-1:1"].every, plans["billing-1:1"].coordinators) == (10_000, (4, 5))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('topic = "orders"', "canary: topic: 'orders' does not contain txnscope-canary"),
        ('topic = "txnscope-canary/1"', "canary: topic: 'txnscope-canary/1' is not a valid topic name"),
        ('every = "0s"', "canary: every: '0s' is shorter than a second"),
        ("every = 10", "canary: every: 10 is no duration like"),
        ("coordinators = [-1]", "canary: coordinators"),
        ("coordinators = true", "canary: coordinators"),
        ('brokers = "1"', "unknown key 'brokers'"),
    ],
)
def test_a_bad_value_is_named(line: str, why: str) -> None:
    with pytest.raises(SettingsError) as error:
        settings(f"[canary]\n{line}\n")
    assert why in str(error.value)


def test_a_properties_file_that_does_not_exist_is_named() -> None:
    bad = settings('[canary]\nkafka_config = "none.properties"\n', bootstrap_servers="a:1")
    with pytest.raises(CommandFailed, match=r"none\.properties"):
        canary_plans(bad)


def test_a_variable_switches_the_canary_on_for_the_service_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TXNSCOPE_CANARY", "{}")
    given = load({"bootstrap_servers": "a:1"})
    assert len(canary_plans(given)) == 1
    monkeypatch.delenv("TXNSCOPE_CANARY")
    for environment, number in ((for_service(given), 1), (for_ingest(given), 0)):
        monkeypatch.setenv(DOCUMENT, environment[DOCUMENT])
        assert len(canary_plans(load({"bootstrap_servers": "a:1"}))) == number

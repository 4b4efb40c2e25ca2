"""Tests of `[[clusters]]`. Each cluster gets a process with the settings of its table. A mistake is reported in one
line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from service.cli.errors import CommandFailed
from service.cli.kafka import ingest_children, remediation_clients, service_clients
from service.settings import DOCUMENT, Settings, SettingsError, for_service, load

TWO = """
checkpoint = "scratch"

[[clusters]]
name = "orders"
bootstrap_servers = "orders-1:9092"
kafka_config = "orders.properties"
topics = ["orders-*"]
partitions = "all"

[[clusters]]
name = "billing/eu"
bootstrap_servers = "billing-1:9092"
mirrored = ["eu.*"]
"""


@pytest.fixture(autouse=True)
def somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("TXNSCOPE_")]:
        monkeypatch.delenv(name)
    (tmp_path / "orders.properties").write_text("client.id=us\n")


def settings(text: str = TWO.replace("billing/eu", "billing"), **flags: str) -> Settings:
    Path("txnscope.toml").write_text(text)
    return load(flags, "txnscope.toml")


def passed_on(environment: Mapping[str, str]) -> Settings:
    return Settings.model_validate_json(environment[DOCUMENT])


def test_each_cluster_has_an_application_as_its_table_says() -> None:
    orders, billing = ingest_children(settings())
    assert (orders.name, billing.name) == ("ingest orders", "ingest billing")
    assert orders.arguments[3:] == ["--cluster", "orders"]
    assert orders.environment == billing.environment
    assert orders.final == billing.final == frozenset(), "no exit code of one application ends the others"


def test_each_cluster_has_the_settings_of_its_table() -> None:
    orders, billing = settings().of_each_cluster()
    assert (orders.bootstrap_servers, orders.kafka_config) == ("orders-1:9092", Path("orders.properties"))
    assert (orders.cluster, orders.checkpoint) == ("orders", Path("scratch/orders"))
    assert (orders.partitions, orders.topics, orders.mirrored) == ("all", ("orders-*",), ())
    assert (billing.bootstrap_servers, billing.kafka_config) == ("billing-1:9092", None)
    assert (billing.cluster, billing.checkpoint) == ("billing", Path("scratch/billing"))
    assert (billing.partitions, billing.topics, billing.mirrored) == ("stalled", (), ("eu.*",))


def test_the_brokers_of_a_cluster_may_be_in_its_client_properties() -> None:
    Path("orders.properties").write_text("bootstrap.servers=PLAINTEXT://orders-1:9092\n")
    Path("writer.properties").write_text("client.id=writer\n")
    table = TWO.replace('bootstrap_servers = "orders-1:9092"', 'remediation_config = "writer.properties"')
    reported = settings(table.replace("billing/eu", "billing"))
    assert "bootstrap_servers" not in reported.of_each_cluster()[0].model_dump(exclude_defaults=True)
    for clients in (service_clients(reported), remediation_clients(reported)):
        assert clients.by_name["orders"].bootstrap_servers == ("orders-1:9092",)
    Path("orders.properties").write_text("")
    with pytest.raises(
        CommandFailed, match=r"--bootstrap-servers is missing, and .*orders\.properties has no bootstrap\.servers"
    ):
        service_clients(reported)


def test_the_cluster_flag_chooses_one_cluster() -> None:
    (billing,) = ingest_children(settings(cluster="billing"))
    assert billing.name == "ingest"
    assert settings(cluster="billing").of_one_cluster().bootstrap_servers == "billing-1:9092"
    assert settings(cluster="orders").of_one_cluster().bootstrap_servers == "orders-1:9092"


def test_the_service_has_the_brokers_of_each_cluster() -> None:
    clients = service_clients(settings())
    assert {name: settings.bootstrap_servers for name, settings in clients.by_name.items()} == {
        "orders": ("orders-1:9092",),
        "billing": ("billing-1:9092",),
    }
    assert passed_on(for_service(settings())).clusters == settings().clusters
    assert service_clients(load({})) == (None, {})


def test_markers_are_written_by_their_own_principal() -> None:
    Path("writer.properties").write_text("client.id=writer\n")
    text = TWO.replace("billing/eu", "billing").replace(
        'mirrored = ["eu.*"]', 'kafka_config = "orders.properties"\nremediation_config = "writer.properties"'
    )
    reported = settings(text)
    assert passed_on(for_service(reported)).clusters == reported.clusters
    asking, writing = service_clients(reported), remediation_clients(reported)
    files = {name: (asking.by_name[name].file, writing.by_name[name].file) for name in ("orders", "billing")}
    here = Path.cwd()
    assert files == {
        "orders": (here / "orders.properties", here / "orders.properties"),
        "billing": (here / "orders.properties", here / "writer.properties"),
    }


def test_the_flag_of_the_writing_principal_is_for_the_service_alone() -> None:
    Path("writer.properties").write_text("client.id=writer\n")
    reported = load({"bootstrap_servers": "a:1", "remediation_config": "writer.properties"})
    assert remediation_clients(reported).other != service_clients(reported).other
    assert passed_on(for_service(reported)).remediation_config == Path("writer.properties")
    (ingest,) = ingest_children(reported)
    assert passed_on(ingest.environment).remediation_config is None


def test_without_tables_the_flags_describe_one_cluster() -> None:
    (one,) = load({"bootstrap_servers": "a:1"}).of_each_cluster()
    assert one.bootstrap_servers == "a:1"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (TWO, "cluster 'billing/eu': name: 'billing/eu' is no name: give printable text without a slash"),
        ("clusters = 5", "not a list of tables: write [[clusters]]"),
        ("[[clusters]]\nbootstrap_servers = 'a:1'", "cluster 1: name is missing"),
        ("[[clusters]]\nname = 'a'", "cluster 'a': bootstrap_servers is missing: give HOST:PORT[,…]"),
        ("[[clusters]]\nname = 'a'\nbootstrap_server = 'a:1'", "unknown key 'bootstrap_server' (did you mean boot"),
        (
            "[[clusters]]\nname = 'a'\nbootstrap_servers = 'a:1'\ntopics = ['?!/']",
            "cluster 'a': topics: '?!/' is neither",
        ),
        (
            "[[clusters]]\nname = 'a'\nbootstrap_servers = 'a:1'\npartitions = 'all'",
            "cluster 'a': partitions: 'all' needs --topics",
        ),
        ("[[clusters]]\nname = 'a'\nbootstrap_servers = 'a:1'\n" * 2, "two clusters have the name 'a'"),
    ],
)
def test_a_mistake_in_a_table_is_named(text: str, complaint: str) -> None:
    with pytest.raises(SettingsError) as raised:
        settings(text)
    reported = str(raised.value)
    assert reported.startswith("--config txnscope.toml: clusters: ")
    assert complaint in reported
    assert "\n" not in reported


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (
            {"bootstrap_servers": "a:1"},
            "--bootstrap-servers: each of [[clusters]] has its own value, so leave the flag out",
        ),
        (
            {"remediation_config": "a"},
            "--remediation-config: each of [[clusters]] has its own value, so leave the flag out",
        ),
        ({"topics": "a"}, "--topics: each of [[clusters]] has its own value, so leave the flag out"),
        ({"cluster": "payments"}, "--cluster payments: no [[clusters]] has this name; there are: orders, billing"),
    ],
)
def test_flags_that_do_not_fit_the_tables_are_named(flags: dict[str, str], complaint: str) -> None:
    with pytest.raises(SettingsError) as raised:
        settings(**flags).of_each_cluster()
    assert str(raised.value) == complaint


def test_a_command_about_one_cluster_needs_its_name() -> None:
    with pytest.raises(SettingsError) as raised:
        settings().of_one_cluster()
    assert str(raised.value) == "--cluster is missing: choose one of orders, billing"

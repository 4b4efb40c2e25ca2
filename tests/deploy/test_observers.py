"""Tests that all files, addresses and data sources named in deploy/compose for Prometheus, Alertmanager and Grafana
exist."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from service.api.routes import health
from tests.dashboards.rules.files import accepts
from tests.deploy.compose_files import COMPOSE, behind, compose, published, read_yaml
from tests.helpers.paths import ROOT

SERVICES = compose()["services"]
PROMETHEUS = COMPOSE / "prometheus" / "prometheus.yml"
ALERTMANAGER = COMPOSE / "alertmanager" / "alertmanager.yml"
PROVISIONING = COMPOSE / "grafana" / "provisioning"


def rule_files() -> list[Path]:
    found: list[Path] = []
    for pattern in read_yaml(PROMETHEUS)["rule_files"]:
        path = PurePosixPath(pattern)
        found += sorted(behind(SERVICES["prometheus"], str(path.parent)).glob(path.name))
    return found


def alerts() -> Iterator[dict[str, Any]]:
    for path in rule_files():
        for group in read_yaml(path)["groups"]:
            yield from (rule for rule in group["rules"] if "alert" in rule)


def flag(service: str, name: str) -> str:
    (value,) = (word.partition("=")[2] for word in SERVICES[service]["command"] if word.startswith(f"--{name}="))
    return str(value)


def serves(target: str, *, on: str) -> bool:
    """Returns whether a container publishes the port of `target` (`host:port`). The host is the name of the container,
    or `localhost` for the container `on`. Raises KeyError if no container has this name."""
    host, _, port = target.rpartition(":")
    name = on if host == "localhost" else host
    return int(port) in [container for _, _, container in published(SERVICES[name])]


def panels(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", ())


def dashboards() -> list[Path]:
    (provider,) = read_yaml(PROVISIONING / "dashboards" / "txnscope.yml")["providers"]
    found = sorted(behind(SERVICES["grafana"], provider["options"]["path"]).glob("*.json"))
    assert found
    return found


def test_prometheus_scrapes_the_running_service() -> None:
    config = read_yaml(PROMETHEUS)
    assert config["global"]["scrape_interval"] == "15s"
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    (static,) = jobs["txnscope"]["static_configs"]
    assert static["targets"] == ["service:8080"]
    assert jobs["txnscope"].get("metrics_path", "/metrics") in [getattr(r, "path", "") for r in health.router.routes]
    for job in jobs.values():
        assert all(
            serves(target, on="prometheus")
            for static_config in job["static_configs"]
            for target in static_config["targets"]
        )
    (manager,) = config["alerting"]["alertmanagers"]
    assert all(
        serves(target, on="prometheus")
        for static_config in manager["static_configs"]
        for target in static_config["targets"]
    )


def test_prometheus_and_alertmanager_read_the_mounted_files() -> None:
    assert behind(SERVICES["prometheus"], flag("prometheus", "config.file")) == PROMETHEUS
    assert behind(SERVICES["alertmanager"], flag("alertmanager", "config.file")) == ALERTMANAGER
    for name, path in (("prometheus", "storage.tsdb.path"), ("alertmanager", "storage.path")):
        targets = [volume.split(":")[1] for volume in SERVICES[name]["volumes"]]
        assert flag(name, path) in targets, "the container is read-only, so the path must be on a volume"


def test_prometheus_finds_only_rule_files() -> None:
    """The same folder also has the rules in the form of the Prometheus Operator. Prometheus would not start with that
    file."""
    found = rule_files()
    assert [path.name for path in found] == ["txnscope.rules.yml"]
    assert all(set(read_yaml(path)) == {"groups"} for path in found)
    assert "KafkaTransactionHanging" in [alert["alert"] for alert in alerts()]


def test_links_of_alerts_lead_to_running_services() -> None:
    links = {urlsplit(link) for alert in alerts() for link in _links(alert)}
    assert {link.hostname for link in links} <= {"localhost", "127.0.0.1"}
    ports = {host for name in ("service", "grafana") for _, host, _ in published(SERVICES[name])}
    assert {link.port for link in links} == ports


def _links(alert: dict[str, Any]) -> list[str]:
    annotations = alert["annotations"]
    return [annotations[name] for name in ("page_url", "dashboard_url") if name in annotations]


def test_alertmanager_routes_as_the_example_of_the_rules() -> None:
    """The routes and inhibit rules must equal those of the example, which alone decides what is paged and muted. No
    receiver has an address."""
    here, example = read_yaml(ALERTMANAGER), read_yaml(ROOT / "dashboards" / "rules" / "alertmanager.example.yml")
    assert here["route"] == example["route"]
    assert here["inhibit_rules"] == example["inhibit_rules"]
    known = {receiver["name"] for receiver in here["receivers"]}
    assert {route["receiver"] for route in (here["route"], *here["route"]["routes"])} == known
    assert all(set(receiver) == {"name"} for receiver in here["receivers"]), "receivers have names and no addresses"


def test_grafana_asks_this_prometheus_as_often_as_it_scrapes() -> None:
    (source,) = read_yaml(PROVISIONING / "datasources" / "prometheus.yml")["datasources"]
    assert source["type"] == "prometheus"
    assert source["isDefault"] is True
    assert serves(urlsplit(source["url"]).netloc, on="grafana")
    assert source["jsonData"]["timeInterval"] == read_yaml(PROMETHEUS)["global"]["scrape_interval"]
    assert behind(SERVICES["grafana"], "/etc/grafana/provisioning") == PROVISIONING


def test_dashboards_use_a_data_source_that_is_provisioned() -> None:
    """A panel names its data source in one of two ways: the uid of a provisioned data source, or a variable. The
    variable offers all data sources of its type, the default one first."""
    (source,) = read_yaml(PROVISIONING / "datasources" / "prometheus.yml")["datasources"]
    for path in dashboards():
        dashboard = json.loads(path.read_text("utf-8"))
        variables = {v["name"]: v for v in dashboard["templating"]["list"] if v["type"] == "datasource"}
        assert all(variable["query"] == source["type"] for variable in variables.values())
        usable = {source["uid"], *(f"${{{name}}}" for name in variables)}
        used = {panel["datasource"]["uid"] for panel in panels(dashboard) if "datasource" in panel}
        assert used <= usable, path.name


def test_grafana_begins_with_the_overview() -> None:
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert behind(SERVICES["grafana"], home) in dashboards()


def test_promtool_takes_the_configuration(tmp_path: Path) -> None:
    rules = (ROOT / "dashboards" / "rules").as_posix()
    here = tmp_path / "prometheus.yml"
    here.write_text(PROMETHEUS.read_text("utf-8").replace("/etc/prometheus/rules", rules), "utf-8")
    accepts("promtool", "check", "config", here)


def test_amtool_takes_the_configuration() -> None:
    accepts("amtool", "check-config", ALERTMANAGER)

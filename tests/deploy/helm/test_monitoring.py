"""Tests that the chart has the dashboards and rules of the repository, with the addresses of the release."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml
from fastapi.routing import APIRoute

from dashboards.build import BOARDS, text
from dashboards.rules.build import EVERYWHERE, RULES, documents
from dashboards.rules.rule import JOB, Links
from dashboards.rules.scope import Scope
from service.api.routes import health
from tests.dashboards.rules.files import accepts
from tests.deploy.helm.rendering import RELEASE, Manifest, of_kind, one, rendered

PAGE: Final = "https://txnscope.example.org"
GRAFANA: Final = "https://grafana.example.org"
ON: Final = "--set=prometheusRule.enabled=true,dashboards.enabled=true,serviceMonitor.enabled=true"


def boards(manifests: list[Manifest]) -> dict[str, str]:
    """Returns a mapping from the file name of each dashboard to the content of the file."""
    found: dict[str, str] = {}
    for manifest in of_kind(manifests, "ConfigMap"):
        if "grafana_dashboard" in manifest["metadata"]["labels"]:
            found |= manifest["data"]
    return found


def groups(manifests: list[Manifest]) -> Any:
    return one(manifests, "PrometheusRule")["spec"]["groups"]


def expected(links: Links, scope: Scope = EVERYWHERE) -> Any:
    """Returns the groups as the repository's generator makes them, as plain values."""
    return plain(documents(links, scope)[RULES])["groups"]


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, str) else value


def test_dashboards_are_those_of_the_generator_with_the_own_address() -> None:
    found = boards(rendered("monitoring"))
    assert found == {f"txnscope-{board.file}": text(board, PAGE) for board in BOARDS}


def test_without_an_address_dashboards_are_the_committed_files() -> None:
    found = boards(rendered("spark-cluster", ON))
    assert found == {f"txnscope-{board.file}": text(board, "http://127.0.0.1:8080") for board in BOARDS}


def test_config_maps_of_dashboards_are_small_enough_and_found_by_the_sidecar() -> None:
    for manifest in of_kind(rendered("monitoring"), "ConfigMap"):
        assert sum(len(content.encode()) for content in manifest["data"].values()) < 900_000
    folders = [
        m["metadata"].get("annotations", {}).get("grafana_folder") for m in of_kind(rendered("monitoring"), "ConfigMap")
    ]
    assert folders.count("Kafka") == len(BOARDS)


def test_rules_are_those_of_the_generator_with_the_own_addresses() -> None:
    wanted = expected(Links(PAGE, GRAFANA), Scope(labels=(("team", "streaming"),)))
    for group in wanted:
        group["rules"] = [rule for rule in group["rules"] if rule.get("alert") != "KafkaTxnWatchdog"]
    assert groups(rendered("monitoring")) == [group for group in wanted if group["rules"]]


def test_without_addresses_rules_are_the_committed_file() -> None:
    assert groups(rendered("spark-cluster", ON)) == expected(Links())


def test_runbooks_can_be_elsewhere() -> None:
    found = groups(rendered("monitoring", "--set=links.runbooks=https://wiki.example.org/txnscope/"))
    urls = [rule["annotations"]["runbook_url"] for group in found for rule in group["rules"] if "alert" in rule]
    assert urls
    assert all(url.startswith("https://wiki.example.org/txnscope/Kafka") for url in urls)


def test_alerts_look_for_the_scrape_job_of_the_release() -> None:
    """The Prometheus Operator names a scrape job after its Service."""
    own = groups(rendered("locked-down"))
    assert own == expected(Links("http://127.0.0.1:8080"), Scope(job="kafka-observer"))
    name = one(rendered("monitoring"), "Service")["metadata"]["name"]
    assert RELEASE in name
    assert re.fullmatch(JOB, name)


def test_promtool_accepts_the_rendered_rules(tmp_path: Path) -> None:
    for example in ("monitoring", "locked-down"):
        file = tmp_path / f"{example}.yml"
        file.write_text(yaml.safe_dump({"groups": groups(rendered(example))}), "utf-8")
        accepts("promtool", "check", "rules", "--lint=all", "--lint-fatal", file)


def test_prometheus_scrapes_a_path_that_exists_on_the_port_of_the_service() -> None:
    for example in ("monitoring", "locked-down"):
        manifests = rendered(example)
        service, monitor = one(manifests, "Service"), one(manifests, "ServiceMonitor")
        assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
        assert endpoint["path"] in {route.path for route in health.router.routes if isinstance(route, APIRoute)}
        assert endpoint["honorLabels"] is True
        assert endpoint["scheme"] == ("https" if example == "locked-down" else "http")
    assert one(rendered("monitoring"), "ServiceMonitor")["metadata"]["labels"]["release"] == "kube-prometheus-stack"


def test_links_are_to_the_host_of_an_ingress_or_a_route() -> None:
    for example in ("several-clusters", "gateway"):
        assert groups(rendered(example, ON)) == expected(Links("https://txnscope.example.org"))

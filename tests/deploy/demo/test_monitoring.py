"""Tests that Prometheus and Alertmanager of `make demo-full` use the shipped rules and routes, and leave no process
behind."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
import yaml

from dashboards.rules.build import RULES, alerts
from deploy.demo.broker import is_free
from deploy.demo.monitoring import (
    EXAMPLE,
    Monitoring,
    NotInstalled,
    alertmanager_config,
    find_programs,
    prometheus_config,
)
from deploy.demo.options import MonitoringPorts
from deploy.demo.webhook import Notice, Webhook
from tests.dashboards.rules.files import accepts
from tests.helpers.brokers import free_port, free_ports
from tests.helpers.processes import all_processes, command_of
from tests.helpers.servers import get_json
from tests.helpers.waiting import ANSWER_S, wait_for

HANGS = {"alertname": "KafkaTransactionHanging", "service": "txnscope", "severity": "critical", "cluster": "demo"}


@pytest.mark.parametrize(
    ("there", "missing"),
    [
        ((), "Prometheus is not installed (no prometheus on PATH): make system-packages"),
        (("prometheus",), "Alertmanager is not installed (no prometheus-alertmanager on PATH): make system-packages"),
    ],
)
def test_a_missing_program_is_one_line_with_the_remedy(tmp_path: Path, there: tuple[str, ...], missing: str) -> None:
    _programs(tmp_path, *there)
    with pytest.raises(NotInstalled) as refused:
        find_programs(str(tmp_path))
    assert str(refused.value) == missing


@pytest.mark.parametrize("name", ["alertmanager", "prometheus-alertmanager"])
def test_alertmanager_is_found_under_both_its_names(tmp_path: Path, name: str) -> None:
    _programs(tmp_path, "prometheus", name)
    assert Path(find_programs(str(tmp_path)).alertmanager) == tmp_path / name


def test_every_receiver_is_the_webhook_and_routes_are_those_of_the_example() -> None:
    example, ours = yaml.safe_load(EXAMPLE.read_text()), alertmanager_config("http://127.0.0.1:1/")
    assert {key: ours[key] for key in ("route", "inhibit_rules")} == {
        key: example[key] for key in ("route", "inhibit_rules")
    }
    sent = {
        receiver["name"]: [to["url"] for to in receiver.get("webhook_configs", ())] for receiver in ours["receivers"]
    }
    webhook = ["http://127.0.0.1:1/"]
    assert sent == {"page": webhook, "ticket": webhook, "heartbeat": [], "nobody": []}


def test_promtool_and_amtool_accept_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text("groups: []")
    for tool, name, document in (
        ("promtool", "prometheus.yml", prometheus_config(1, 2, tmp_path / "rules.yml")),
        ("amtool", "alertmanager.yml", alertmanager_config("http://127.0.0.1:1/")),
    ):
        (tmp_path / name).write_text(yaml.safe_dump(document))
        arguments = ("check", "config") if tool == "promtool" else ("check-config",)
        accepts(tool, *arguments, tmp_path / name)


@pytest.fixture
def notices() -> list[Notice]:
    """The list to which the webhook appends each notice."""
    return []


@pytest.fixture
def monitoring(tmp_path: Path, notices: list[Notice]) -> Iterator[Monitoring]:
    """Runs Prometheus and Alertmanager for a txnscope that does not exist. Skips the test if one of the programs is not
    installed."""
    try:
        programs = find_programs()
    except NotInstalled as e:
        pytest.skip(str(e))
    with Webhook(notices.append) as webhook:
        monitoring = Monitoring(programs, MonitoringPorts(*free_ports(2)), tmp_path, free_port(), webhook.url)
        try:
            monitoring.start()
            for url in (monitoring.prometheus, monitoring.alertmanager):
                wait_for(partial(_answers, f"{url}/-/ready"), f"an answer of {url}")
            yield monitoring
        finally:
            monitoring.kill()


def test_prometheus_runs_the_shipped_rules_and_alerts_reach_the_webhook(
    monitoring: Monitoring, notices: list[Notice], tmp_path: Path
) -> None:
    groups = get_json(f"{monitoring.prometheus}/api/v1/rules")["data"]["groups"]
    assert {rule["name"] for group in groups for rule in group["rules"]} >= {alert.name for alert in alerts()}
    text = (tmp_path / "rules" / RULES).read_text()
    assert "page_url: http://127.0.0.1:8080" not in text, "hyperlinks must lead to the demo's txnscope"
    (active,) = wait_for(
        lambda: get_json(f"{monitoring.prometheus}/api/v1/alertmanagers")["data"]["activeAlertmanagers"],
        "an Alertmanager",
    )
    assert active["url"].startswith(monitoring.alertmanager)
    link = "http://127.0.0.1:1/clusters/demo/findings/f"
    body = json.dumps([{"labels": HANGS, "annotations": {"summary": "It hangs", "page_url": link}}]).encode()
    url = f"{monitoring.alertmanager}/api/v2/alerts"
    urllib.request.urlopen(
        urllib.request.Request(url, body, {"Content-Type": "application/json"}), timeout=ANSWER_S
    ).close()
    wait_for(lambda: notices, "a notice")
    assert notices == [Notice("firing", "KafkaTransactionHanging", "critical", "It hangs", link)]
    assert monitoring.ended_program() is None


def test_a_program_that_dies_is_named_with_the_end_of_its_log(monitoring: Monitoring, tmp_path: Path) -> None:
    _process_of(f"--storage.tsdb.path={tmp_path}").kill()
    said = wait_for(lambda: monitoring.ended_program(3), "the report that Prometheus has ended")
    first, *log = said.splitlines()
    assert (first, len(log)) == ("Prometheus ended with code 137; its log ends:", 3)
    monitoring.kill()
    assert all(is_free(int(url.rpartition(":")[2])) for url in (monitoring.prometheus, monitoring.alertmanager))


def _programs(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).touch(0o700)


def _process_of(argument: str) -> psutil.Process:
    """Returns the process that was started with this argument. Its keeper process, which has the same argument, does
    not count."""
    commands = {process: command_of(process) for process in all_processes()}
    (found,) = (process for process, it in commands.items() if argument in it and "deploy.demo.child_process" not in it)
    return found


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1):
            return True
    except OSError:
        return False

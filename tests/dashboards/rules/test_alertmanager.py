"""Tests the example configuration in a real Alertmanager: an outage mutes the alerts that depend on stale data, but
never an alert about a hanging transaction."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dashboards.rules.files import ALERTMANAGER, load, run
from tests.dashboards.rules.test_routes import HANGS, named
from tests.helpers.alertmanagers import alertmanager
from tests.helpers.servers import get_json
from tests.helpers.waiting import ANSWER_S, wait_until_equal


@pytest.fixture
def alerts(tmp_path: Path) -> Iterator[str]:
    """Yields the address of Alertmanager's API."""
    with alertmanager(ALERTMANAGER, tmp_path) as url:
        yield f"{url}/api/v2/alerts"


def test_an_outage_mutes_dependent_alerts_but_no_hanging_transaction(alerts: str) -> None:
    """All alerts arrive at the same time, as after a broker failure that has also stopped the streaming application."""
    sent = [
        named("KafkaTxnPipelineStale", source="partitions"),
        named("KafkaTransactionHanging", **HANGS),
        named("KafkaLastStableOffsetStuck", topic="payments", partition="3"),
        named("KafkaConsumerGroupBlocked", group="billing", topic="payments"),
        named("KafkaTransactionPrepareStuck", state="PrepareCommit"),
        named("KafkaTransactionOverdue", "critical"),
        named("KafkaTransactionOverdue", "warning"),
        named("KafkaTxnWatchdog"),
    ]
    body = json.dumps([{"labels": labels, "annotations": {"summary": "…"}} for labels in sent]).encode()
    request = urllib.request.Request(alerts, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
        assert answer.status == 200
    expected = {
        ("KafkaLastStableOffsetStuck", "critical"),
        ("KafkaConsumerGroupBlocked", "warning"),
        ("KafkaTransactionOverdue", "warning"),
    }
    # Alertmanager accepts the alerts first, and inhibits them a moment later
    wait_until_equal(lambda: _muted(alerts), expected, "the muted alerts")


def _muted(url: str) -> set[tuple[str, str]]:
    return {_key(alert["labels"]) for alert in _alerts(url) if alert["status"]["inhibitedBy"]}


def _alerts(url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = get_json(url)
    assert len(found) == 8
    return found


def _key(labels: dict[str, str]) -> tuple[str, str]:
    return labels["alertname"], labels["severity"]


def test_a_page_for_several_alerts_has_a_summary_and_a_link(tmp_path: Path) -> None:
    """Alertmanager omits an annotation from `CommonAnnotations` if it differs among the alerts of a group. PagerDuty
    refuses an event without a summary. For this reason, nobody was paged when two sources had stalled together."""
    (paged,) = (receiver for receiver in load(ALERTMANAGER)["receivers"] if receiver["name"] == "page")
    (page,) = paged["pagerduty_configs"]
    alerts = [
        {
            "status": "firing",
            "labels": {"alertname": "KafkaTxnPipelineStale", "severity": "critical", "source": source},
            "annotations": {"summary": f"Nothing of {source} is read", "page_url": f"http://page/{source}"},
        }
        for source in ("the log", "the partitions")
    ]
    data = tmp_path / "group.json"
    shared = {"commonLabels": {"alertname": "KafkaTxnPipelineStale", "severity": "critical"}, "commonAnnotations": {}}
    data.write_text(json.dumps({"status": "firing", "alerts": alerts} | shared))
    assert _rendered(page["description"], data) == "Nothing of the log is read (1 of 2 alerts)"
    assert _rendered(page["client_url"], data) == "http://page/the log"
    data.write_text(json.dumps({"status": "firing", "alerts": alerts[1:]} | shared))
    assert _rendered(page["description"], data) == "Nothing of the partitions is read"


def _rendered(template: str, data: Path) -> str:
    (data.parent / "none.tmpl").touch()
    flags = (f"--template.glob={data.parent}/*.tmpl", f"--template.text={template}", f"--template.data={data}")
    done = run("amtool", "template", "render", *flags)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()

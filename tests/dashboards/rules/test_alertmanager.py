"""Tests the example configuration in a real Alertmanager: an outage mutes alerts about old data, and never a hanging
transaction."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.dashboards.rules.files import ALERTMANAGER, load, run
from tests.dashboards.rules.test_routes import HANGS, named
from tests.helpers.servers import get_json
from tests.helpers.waiting import ANSWER_S, LIMIT_S, wait_for, wait_until_equal

PROGRAMS: Final = ("prometheus-alertmanager", "alertmanager")


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[str]:
    """Yields the address of Alertmanager's API."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("Alertmanager is not installed (make system-packages)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    given = (f"--config.file={ALERTMANAGER}", f"--storage.path={tmp_path}", f"--web.listen-address={place}")
    with (tmp_path / "log").open("wb") as log:
        running = subprocess.Popen([program, *given, "--cluster.listen-address="], stderr=log, stdout=log)
        try:
            _wait(f"http://{place}/-/ready", running)
            yield f"http://{place}/api/v2/alerts"
        finally:
            running.kill()
            running.wait(LIMIT_S)


def test_an_outage_mutes_dependent_alerts_but_no_hanging_transaction(alertmanager: str) -> None:
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
    request = urllib.request.Request(alertmanager, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
        assert answer.status == 200
    expected = {
        ("KafkaLastStableOffsetStuck", "critical"),
        ("KafkaConsumerGroupBlocked", "warning"),
        ("KafkaTransactionOverdue", "warning"),
    }
    # Alertmanager accepts the alerts first, and inhibits them a moment later
    wait_until_equal(lambda: _muted(alertmanager), expected, "the muted alerts")


def _muted(url: str) -> set[tuple[str, str]]:
    return {_key(one["labels"]) for one in _alerts(url) if one["status"]["inhibitedBy"]}


def _alerts(url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = get_json(url)
    assert len(found) == 8
    return found


def _key(labels: dict[str, str]) -> tuple[str, str]:
    return labels["alertname"], labels["severity"]


def _wait(url: str, running: subprocess.Popen[bytes]) -> None:
    def is_ready() -> bool:
        assert running.poll() is None, "Alertmanager ended during its start"
        with urllib.request.urlopen(url, timeout=1):
            return True

    wait_for(is_ready, f"Alertmanager to be ready at {url}", retry_on=(OSError,))


def test_a_page_for_several_alerts_has_a_summary_and_a_link(tmp_path: Path) -> None:
    """If annotations differ among the alerts of a group, Alertmanager omits them from `CommonAnnotations`, and
    PagerDuty refuses an event without a summary. In an earlier version, nobody was paged when two sources stalled
    together."""
    (paged,) = (one for one in load(ALERTMANAGER)["receivers"] if one["name"] == "page")
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

"""Tests that the demo's webhook reports each change of an alert or a finding once, as one line."""

from __future__ import annotations

import json
import socket
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from deploy.demo.webhook import MAX_BYTES, Notice, Webhook
from tests.helpers.waiting import ANSWER_S

LINK = "http://127.0.0.1:8080/clusters/demo/findings/1f0c"


def alert(status: str = "firing", fingerprint: str = "a", summary: str = "A transaction hangs") -> dict[str, Any]:
    return {
        "status": status,
        "labels": {"alertname": "KafkaTransactionHanging", "severity": "critical", "topic": "refunds"},
        "annotations": {"summary": summary, "page_url": LINK},
        "startsAt": "2026-11-21T19:00:00Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://127.0.0.1:9090/graph",
        "fingerprint": fingerprint,
    }


def body(*alerts: dict[str, Any]) -> bytes:
    return json.dumps({"version": "4", "receiver": "page", "status": "firing", "alerts": alerts}).encode()


def post(url: str, content: bytes, **headers: str) -> int:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=ANSWER_S)
    try:
        connection.request("POST", "/", content, headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_an_alert_is_one_line_with_its_link() -> None:
    reported: list[Notice] = []
    with Webhook(reported.append) as webhook:
        assert post(webhook.url, body(alert())) == 200
    (notice,) = reported
    assert notice.line == f"firing    KafkaTransactionHanging (critical): A transaction hangs  {LINK}"


def test_a_notification_is_one_line_once() -> None:
    finding = {"id": "1f0c", "kind": "hanging_transaction", "severity": "critical", "summary": "pay hangs"}
    reported: list[Notice] = []
    with Webhook(reported.append) as webhook:
        for event in ("opened", "confirmed", "resolved"):
            content = json.dumps({"event": event, "finding": finding, "link": LINK}).encode()
            assert post(webhook.url, content) == 200
    assert [notice.line for notice in reported] == [
        f"{status:<8}  hanging_transaction (critical): pay hangs  {LINK}" for status in ("notified", "ended")
    ]


def test_the_webhook_prints_each_change_once() -> None:
    """When another alert of a group begins, Alertmanager sends the whole group again."""
    reported: list[Notice] = []
    webhook = Webhook(reported.append)
    with webhook:
        webhook.receive(body(alert()))
        webhook.receive(body(alert(), alert(fingerprint="b", summary="Another one")))
        webhook.receive(body(alert("resolved"), alert(fingerprint="b", summary="Another one")))
        webhook.receive(body(alert()))
    assert [(notice.status, notice.summary) for notice in reported] == [
        ("firing", "A transaction hangs"),
        ("firing", "Another one"),
        ("resolved", "A transaction hangs"),
        ("firing", "A transaction hangs"),
    ]


def test_control_characters_of_an_alert_are_escaped() -> None:
    reported: list[Notice] = []
    with Webhook(reported.append) as webhook:
        webhook.receive(body(alert(summary="hangs: a\nb\x1b[31m")))
    assert "hangs: a\\nb\\x1b[31m  http" in reported[0].line


@pytest.mark.parametrize("content", [b"", b"no json", b"[]", b'{"alerts": [{}]}', b'{"alerts": [1]}', b"\xff"])
def test_a_body_that_is_no_notification_is_refused_and_not_printed(content: bytes) -> None:
    reported: list[Notice] = []
    with Webhook(reported.append) as webhook:
        assert post(webhook.url, content) == 400
        assert post(webhook.url, b"", **{"Content-Length": str(MAX_BYTES + 1)}) == 413
        assert post(webhook.url, body(alert())) == 200
    assert len(reported) == 1


def test_the_webhook_listens_on_loopback_until_it_ends() -> None:
    with Webhook(lambda _: None) as webhook:
        parts = urlsplit(webhook.url)
        assert parts.hostname == "127.0.0.1"
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", parts.port or 0)) != 0

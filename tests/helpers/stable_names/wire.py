"""The names in notifications, findings, the audit and tools for language models, and the store's revisions.

Names in notifications are taken from what our receivers send.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from alembic.script import ScriptDirectory

from service.access.actions import Action, Outcome
from service.domain.findings import lifecycle
from service.domain.findings.catalogue import CATALOGUE
from service.domain.findings.finding import Subject
from service.domain.findings.kinds import Kind, Resolution, Severity, Status
from service.domain.transaction_log.causes import CauseCode, Confidence
from service.mcp.server import runbooks
from service.mcp.tools import TOOLS
from service.notifications.notification import TEST, Notification
from service.notifications.receivers.http import TEST_ALERT, Alertmanager, Endpoint, Webhook
from service.notifications.receivers.kafka_topic import CONTENT_TYPE, cloud_event
from service.store import migrate
from tests.service.notifications.receiving import BASE, notification

_EVENTS: Final = (
    lifecycle.OPENED,
    lifecycle.CONFIRMED,
    lifecycle.UPDATED,
    lifecycle.REOPENED,
    lifecycle.RESOLVED,
    TEST,
)
_SECRET: Final = "not a secret"


@dataclass(frozen=True)
class _Kept(Endpoint):
    """An endpoint that keeps what is sent to it: request, body, headers."""

    sent: list[tuple[str, Any, Mapping[str, str]]] = field(default_factory=list)

    def request(
        self,
        method: str,
        path: str = "",
        body: bytes | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> bytes:
        self.sent.append((f"{method} {path}".strip(), json.loads(body or b"null"), headers))
        return b"[]"


def sections() -> dict[str, list[str]]:
    return {
        "events of findings": list(_EVENTS),
        "kinds of findings": [str(kind) for kind in Kind],
        "alerts of kinds": [f"{kind}: {entry.alert}" for kind, entry in CATALOGUE.items() if entry.alert],
        "words of findings": [
            *(f"severity = {word}" for word in Severity),
            *(f"status = {word}" for word in Status),
            *(f"resolution = {word}" for word in Resolution),
            *(f"confidence = {word}" for word in Confidence),
        ],
        "causes": [str(cause) for cause in CauseCode],
        "audit": [*(f"action = {word}" for word in Action), *(f"outcome = {word}" for word in Outcome)],
        "webhook": list(_webhook()),
        "CloudEvent": list(_cloud_event()),
        "Alertmanager": list(_alertmanager()),
        "MCP": list(_mcp()),
        "revisions of the store": [revision.revision for revision in _scripts().walk_revisions()],
    }


def _example() -> Notification:
    """Returns a notification of a finding that has a value for every label that an alert can have."""
    one = notification()
    subject = Subject(topic="orders", partition=0, transactional_id=b"pay", group="billing")
    observation = one.finding.observation._replace(subject=subject, owner="team payments")
    return one._replace(finding=replace(one.finding, observation=observation, application="payments"))


def _webhook() -> Iterator[str]:
    endpoint = _Kept(str, lambda: None)
    Webhook(endpoint, lambda: _SECRET, None, lambda: 0.0).send([_example()])
    ((request, body, headers),) = endpoint.sent
    yield request
    yield from (f"header {name}" for name in headers)
    yield from (f"body {name}" for name in body)


def _cloud_event() -> Iterator[str]:
    one = _example()
    event = cloud_event(one)
    yield f"header content-type = {CONTENT_TYPE.decode()}"
    yield from event
    yield f"specversion = {event['specversion']}"
    yield from (f"type = {cloud_event(one._replace(event=word))['type']}" for word in _EVENTS)
    yield from (f"data {name}" for name in event["data"])


def _alertmanager() -> Iterator[str]:
    endpoint = _Kept(str, lambda: None)
    Alertmanager(endpoint, BASE, lambda: 0.0).send([_example()])
    ((request, (alert,), _),) = endpoint.sent
    yield request
    yield from (f"label {name}" for name in alert["labels"])
    yield from (f"annotation {name}" for name in alert["annotations"])
    yield from (f"label {name} = {alert['labels'][name]}" for name in ("service", "scope") if name in alert["labels"])
    yield f"alertname = {TEST_ALERT}"


def _mcp() -> Iterator[str]:
    for tool in TOOLS:
        yield tool.name
        for name, schema in tool.arguments.items():
            yield f"{tool.name} {name} {schema['type']}"
            if name not in tool.optional:
                yield f"{tool.name} needs {name}"
    yield from (runbook.uri for runbook in runbooks())


def _scripts() -> ScriptDirectory:
    return ScriptDirectory(str(Path(migrate.__file__).parent / "migrations"))

"""Receivers over HTTP: a webhook, and Alertmanager. Both send only to the configured address, and follow no
redirects."""

from __future__ import annotations

import base64
import hmac
import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from jinja2 import TemplateError
from jinja2.sandbox import SandboxedEnvironment

from service import http_client
from service.domain.findings.catalogue import CATALOGUE
from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Severity
from service.http_client import NoAnswer
from service.notifications.notification import MUTED, TEST, Notification, Receiver, Undelivered
from service.store.escaped_text import display_id
from service.store.many_rows import batched

TIMEOUT_S: Final = 10.0
LONGEST_RETRY_AFTER_S: Final = 300.0
_REFUSED: Final = (400, 413, 415, 422)
"""Statuses that refuse the message itself, so that sending the same message again does not help."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address, and the bearer token for it. `url` and `bearer`: functions that are called for each request and read
    the files anew, because files change. `ca`: file of the authorities that may sign the server's certificate; None:
    the system's authorities."""

    url: Callable[[], str] = field(repr=False)
    bearer: Callable[[], str | None] = field(repr=False)
    ca: Path | None = None

    def request(
        self,
        method: str,
        path: str = "",
        body: bytes | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> bytes:
        """Sends a request to the address, with `path` after it, and returns the answer's body. Raises Undelivered
        unless the answer is 2xx."""
        try:
            token = self.bearer()
            more = {} if token is None else {"Authorization": f"Bearer {token}"}
            answer = http_client.send(
                method,
                self.url() + path,
                {"Content-Type": "application/json", "User-Agent": "txnscope", **headers, **more},
                body,
                timeout_s=TIMEOUT_S,
                tls=partial(ssl.create_default_context, cafile=self.ca),
                is_timed_as_a_whole=True,
            )
        except NoAnswer as error:
            raise Undelivered(str(error)) from error
        except OSError as error:
            raise Undelivered(f"{error.filename}: {error.strerror}") from error
        if not 200 <= answer.status < 300:
            raise Undelivered(
                f"the receiver answered with status {answer.status}",
                is_refused=answer.status in _REFUSED,
                retry_after_s=_retry_after_s(answer.headers.get("Retry-After", "")),
            )
        return answer.body


def _retry_after_s(text: str) -> float:
    return min(float(text), LONGEST_RETRY_AFTER_S) if text.isascii() and text.isdigit() else 0.0


@dataclass(frozen=True)
class Webhook(Receiver):
    """Sends each notification in a request of its own: as JSON, and signed by the rules of Standard Webhooks 1.0.

    `secret`: a function that returns the key of the signature, as text or as whsec_BASE64; None: no signature.
    `template`: a file with a Jinja template of the body; the template can use the keys of `Notification.as_json`; None:
    the notification as JSON.
    """

    endpoint: Endpoint
    secret: Callable[[], str | None] = field(repr=False)
    template: Path | None
    now_s: Callable[[], float]

    def send(self, notifications: Sequence[Notification]) -> None:
        for taken, notification in enumerate(notifications):
            try:
                body = self._body(notification)
                self.endpoint.request("POST", "", body, self._signature(notification.id, body))
            except Undelivered as error:
                error.taken = taken
                raise

    def _body(self, notification: Notification) -> bytes:
        values = notification.as_json()
        if self.template is None:
            return json.dumps(values, separators=(",", ":")).encode()
        try:
            text = self.template.read_text("utf-8")
            return SandboxedEnvironment().from_string(text).render(values).encode()
        except (TemplateError, OSError) as error:
            raise Undelivered(f"{self.template}: {error}") from error

    def _signature(self, message_id: str, body: bytes) -> dict[str, str]:
        """Returns the headers that https://www.standardwebhooks.com defines. `message_id`: `Notification.id`."""
        at_s = str(int(self.now_s()))
        headers = {"webhook-id": message_id, "webhook-timestamp": at_s}
        if (secret := self.secret()) is not None:
            digest = hmac.digest(_key(secret), b".".join((message_id.encode(), at_s.encode(), body)), "sha256")
            headers["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
        return headers


def _key(secret: str) -> bytes:
    """Returns the bytes of the signature's key. Raises Undelivered if `secret` begins with whsec_, but is not
    base64."""
    if not secret.startswith("whsec_"):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError as error:
        raise Undelivered("the secret begins with whsec_, but no base64 follows") from error


HOLD: Final = timedelta(hours=24)
"""Time for which Alertmanager keeps an alert if txnscope does not end it: an alert must not end only because txnscope
is away."""

TEST_HOLD: Final = timedelta(minutes=5)
REPEAT_S: Final = 30.0
TEST_ALERT: Final = "KafkaTxnNotificationTest"
ALERTS: Final = "/api/v2/alerts"
ALERTS_AT_ONCE: Final = 500


@dataclass(frozen=True)
class Alertmanager(Receiver):
    """Posts alerts to Alertmanager's API v2: an alert for each open finding, repeated until it is resolved.

    Labels are those of the rules in dashboards/rules, and the finding's subject. `base`: the address of our pages.
    """

    endpoint: Endpoint
    base: str
    now_s: Callable[[], float]
    repeats_every_s = REPEAT_S

    def send(self, notifications: Sequence[Notification]) -> None:
        newest = {notification.finding.id: notification for notification in notifications}
        self._post([alert for notification in newest.values() for alert in self._alerts(notification)])

    def repeat(self, notifications: Sequence[Notification]) -> None:
        """Posts the alerts again. If Alertmanager has alerts of the same findings under other labels, because the
        severity or the owner has changed, ends those alerts."""
        alerts = {
            notification.finding.id: self._alert(notification, notification.finding.severity)
            for notification in notifications
        }
        outdated = [
            {"labels": theirs["labels"], "startsAt": theirs["startsAt"], "endsAt": self._now().isoformat()}
            for theirs in self._present()
            if (ours := alerts.get(theirs["labels"].get("finding"))) is not None and ours["labels"] != theirs["labels"]
        ]
        self._post([*alerts.values(), *outdated])

    def _alerts(self, notification: Notification) -> list[dict[str, Any]]:
        """Returns the alert of a finding. If the finding is resolved or muted, returns an ended alert for each severity
        that it may have had."""
        is_over = not notification.finding.is_open or notification.event == MUTED
        severities = CATALOGUE[notification.finding.kind].severities if is_over else (notification.finding.severity,)
        holds = timedelta() if is_over else TEST_HOLD if notification.event == TEST else HOLD
        return [
            {**self._alert(notification, severity), "endsAt": (self._now() + holds).isoformat()}
            for severity in severities
        ]

    def _alert(self, notification: Notification, severity: Severity) -> dict[str, Any]:
        finding = notification.finding
        name, started_ms = CATALOGUE[finding.kind].alert, finding.life.confirmed_at_ms or finding.life.opened_at_ms
        runbook = {} if name is None else {"runbook_url": f"{self.base}/guide/runbooks/{name}.md"}
        # no label: it becomes known, and may change, while the finding is open
        application = {} if finding.application is None else {"application": finding.application}
        return {
            "labels": labels_of(notification, severity),
            "annotations": {
                "summary": finding.summary,
                "description": finding.observation.advice,
                "page_url": notification.link,
                **runbook,
                **application,
            },
            "startsAt": datetime.fromtimestamp(started_ms / 1000, UTC).isoformat(),
            "endsAt": (self._now() + HOLD).isoformat(),
            "generatorURL": notification.link,
        }

    def _post(self, alerts: Sequence[Mapping[str, Any]]) -> None:
        for some in batched(alerts, ALERTS_AT_ONCE):
            self.endpoint.request("POST", ALERTS, json.dumps(some).encode())

    def _present(self) -> list[dict[str, Any]]:
        """Returns the alerts of txnscope that Alertmanager has. Raises Undelivered."""
        answer = self.endpoint.request("GET", f"{ALERTS}?filter=service%3Dtxnscope&filter=scope%3Dfinding")
        try:
            return [load for load in json.loads(answer) if load["labels"]["finding"]]
        except (ValueError, KeyError, TypeError) as error:
            raise Undelivered("the answer is not in the format of Alertmanager's API v2") from error

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.now_s(), UTC)


def labels_of(notification: Notification, severity: Severity) -> dict[str, str]:
    """Returns the labels of a finding's alert. For Alertmanager, an alert with different labels is a different alert,
    so labels hold only values that stay the same. Only severity and owner may change: `Alertmanager.repeat` then ends
    the alert with the outdated labels."""
    finding = notification.finding
    labels = {
        "alertname": TEST_ALERT
        if notification.event == TEST
        else CATALOGUE[finding.kind].alert or f"txnscope_{finding.kind}",
        "service": "txnscope",
        "scope": "finding",
        "cluster": notification.cluster,
        "finding": finding.id,
        "kind": str(finding.kind),
        "severity": str(severity),
        **_subject(finding),
    }
    if finding.observation.owner is not None:
        labels["owner"] = finding.observation.owner
    return labels


def _subject(finding: Finding) -> dict[str, str]:
    subject = finding.subject
    named = {
        "topic": subject.topic,
        "partition": None if subject.partition is None else str(subject.partition),
        "transactional_id": None if subject.transactional_id is None else display_id(subject.transactional_id),
        "group": subject.group,
    }
    return {name: value for name, value in named.items() if value is not None}

"""The tables `[[notify]]`: who is notified, of which findings, and how.

[[notify]]
name = "pager"
kind = "alertmanager"
url = "http://alertmanager:9093"
min_severity = "critical"

[[notify]]
name = "payments"
kind = "apprise"
url_file = "/run/secrets/slack"              # an address of Apprise in each line
owner = "payments"

[[notify]]
name = "automation"
kind = "webhook"
url = "https://ops.example.org/txnscope"
secret_file = "/run/secrets/webhook"

[[notify]]
name = "topic"
kind = "kafka"
url = "kafka://kafka-ops:9092/txnscope-findings"
kafka_config = "/etc/txnscope/ops.properties"
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, StrictBool, model_validator

from service.access.configuration import Table, Text
from service.domain.findings.kinds import Kind, Severity
from service.notifications.notification import Selection

ReceiverKind = Literal["alertmanager", "webhook", "kafka", "apprise"]

_OF_KIND: Final = {
    "secret_file": ("webhook",),
    "template": ("webhook",),
    "bearer_file": ("alertmanager", "webhook"),
    "ca": ("alertmanager", "webhook"),
    "kafka_config": ("kafka",),
    "allow_watched_cluster": ("kafka",),
}
"""Maps a key of the table to the kinds of receivers that may have it. Keys that are missing here are for every kind."""


def _kinds(kinds: object) -> object:
    return frozenset(kinds) if isinstance(kinds, list) else kinds


class NotifyTable(Table):
    """One table `[[notify]]` of the configuration file. Fields without a repr may hold a secret."""

    name: Text
    kind: ReceiverKind
    url: Text | None = Field(default=None, repr=False)
    url_file: Path | None = None
    min_severity: Severity = Severity.WARNING
    kinds: Annotated[frozenset[Kind], BeforeValidator(_kinds)] = frozenset()
    owner: Text | None = None
    topic: Text | None = None
    cluster: Text | None = None
    application: Text | None = None
    secret_file: Path | None = None
    template: Path | None = None
    bearer_file: Path | None = None
    ca: Path | None = None
    kafka_config: Path | None = None
    allow_watched_cluster: StrictBool = False

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> NotifyTable:
        if (self.url is None) == (self.url_file is None):
            raise ValueError("needs either url or url_file")
        for name, kinds in _OF_KIND.items():
            if name in self.model_fields_set and self.kind not in kinds:
                raise ValueError(f"{name} is for {' or '.join(kinds)}, not for {self.kind}")
        if self.url is not None:
            check_url(self.kind, self.url)
        return self

    @property
    def wanted(self) -> Selection:
        return Selection(self.min_severity, self.kinds, self.owner, self.topic, self.cluster, self.application)


def check_url(kind: ReceiverKind, url: str) -> None:
    """Raises ValueError if the address does not fit this kind of receiver. The error does not show the address."""
    try:
        parts = urlsplit(url)
        has_host = bool(parts.netloc) and not any(character.isspace() for character in url)
    except ValueError:
        has_host = False
    if kind == "apprise":
        is_one = "://" in url
    elif kind == "kafka":
        is_one = has_host and parts.scheme == "kafka" and len(parts.path.strip("/")) > 0
    else:
        is_one = has_host and parts.scheme in ("http", "https")
    if not is_one:
        raise ValueError(f"url is no address for {kind}: give one like {_LIKE[kind]}")


_LIKE: Final = {
    "alertmanager": "http://alertmanager:9093",
    "webhook": "https://ops.example.org/txnscope",
    "kafka": "kafka://HOST:PORT[,…]/TOPIC",
    "apprise": "slack://TOKEN_A/TOKEN_B/TOKEN_C",
}

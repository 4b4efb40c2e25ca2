"""The table `[otlp]`: the OpenTelemetry endpoint to which the service sends metrics and traces.

[otlp]
endpoint = "http://collector:4318"           # /v1/metrics and /v1/traces follow
metrics = true
traces = true
interval = "15s"                             # of the metrics
traces_per_minute = 100                      # for each cause in each cluster
bearer_file = "/run/secrets/otlp-token"      # Authorization: Bearer …
headers_file = "/run/secrets/otlp-headers"   # NAME: VALUE in each line
ca = "/etc/txnscope/authority.pem"
attributes = {"deployment.environment.name" = "production"}
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    StrictBool,
    StrictInt,
    field_validator,
    model_validator,
)

from service.access.configuration import Table, Text
from service.domain.duration_text import span_ms

OWN_ATTRIBUTES: Final = ("service.name", "service.version", "service.instance.id")
"""Attributes of the OpenTelemetry resource. The configuration cannot set them."""

_SHORTEST_MS: Final = 1_000
_LONGEST_MS: Final = 300_000


def _endpoint(url: str) -> str:
    """Returns the address without a slash at its end. Raises ValueError if the text is not an address, or has a query,
    a fragment or a user; the error does not show the text."""
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none
        is_one = False
    if not is_one or any(character.isspace() for character in url):
        raise ValueError("endpoint is no address like http://collector:4318")
    if parts.query or parts.fragment:
        raise ValueError("endpoint has a query or a fragment, but /v1/metrics and /v1/traces are added to its end")
    if "@" in parts.netloc:
        raise ValueError("endpoint has a user or a password, which are not sent: use bearer_file or headers_file")
    return url.rstrip("/")


def _interval_ms(interval: Any) -> int:
    ms = span_ms(interval)
    if not _SHORTEST_MS <= ms <= _LONGEST_MS:
        raise ValueError(f"{interval!r} is not between 1s and 5m")
    return ms


class OtlpTable(Table):
    """The table `[otlp]` of the configuration file. `traces_per_minute`: a maximum for each cluster and cause.
    `attributes`: attributes of the OpenTelemetry resource, in addition to OWN_ATTRIBUTES."""

    endpoint: Annotated[str, AfterValidator(_endpoint)] = Field(repr=False, examples=['"http://collector:4318"'])
    metrics: StrictBool = True
    traces: StrictBool = True
    interval: Annotated[
        int, BeforeValidator(_interval_ms), PlainSerializer(lambda ms: f"{ms // 1000}s", return_type=str)
    ] = 15_000
    traces_per_minute: Annotated[StrictInt, Field(ge=1, le=10_000)] = 100
    bearer_file: Path | None = None
    headers_file: Path | None = None
    ca: Path | None = None
    attributes: dict[Text, str] = Field(default={})

    @field_validator("attributes")
    @classmethod
    def _are_free(cls, attributes: dict[str, str]) -> dict[str, str]:
        if taken := next((name for name in attributes if name in OWN_ATTRIBUTES), None):
            raise ValueError(f"{taken} is set by txnscope: remove it")
        return attributes

    @model_validator(mode="after")
    def _sends_something(self) -> OtlpTable:
        if not (self.metrics or self.traces):
            raise ValueError("metrics and traces are both false: to send neither, leave [otlp] out")
        return self

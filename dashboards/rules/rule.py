"""Prometheus' rules and groups, helpers for their expressions, and the labels and links that every alert gets:
severity, runbook, pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from service.metrics.catalogue import Metric

CLUSTER = "cluster"


def pick(metric: Metric, **labels: str | tuple[str, ...]) -> str:
    """Returns a selector; several values of a label are alternatives. Raises ValueError for a label that the metric
    does not have."""
    if unknown := labels.keys() - {CLUSTER, *metric.labels}:
        raise ValueError(f"{metric.name} has no label {', '.join(sorted(unknown))}")
    matchers = [
        f'{name}="{value}"' if isinstance(value, str) else f'{name}=~"{"|".join(value)}"'
        for name, value in labels.items()
    ]
    return f"{metric.name}{{{','.join(matchers)}}}" if matchers else metric.name


def most(selector: str, *by: str) -> str:
    """Returns one value for each cluster and the labels `by`, however many services report it from one store."""
    return f"max by ({', '.join((CLUSTER, *by))}) ({selector})"


def grown(metric: Metric, window: str, *by: str, **labels: str | tuple[str, ...]) -> str:
    """Returns the increase of a counter of the store in the window. All services report the same counter, so it is
    never added up."""
    return most(f"increase({pick(metric, **labels)}[{window}])", *by)


CRITICAL: Final = "critical"
WARNING: Final = "warning"
INFO: Final = "info"
NONE: Final = "none"
SEVERITIES: Final = (CRITICAL, WARNING, INFO, NONE)
"""In this order: pages somebody; opens a ticket; is shown only on dashboards; is the heartbeat."""

SERVICE: Final = "txnscope"
"""Label `service` of all our alerts."""

OF_CLUSTER: Final = '/clusters/{{ $labels.cluster | urlquery | reReplaceAll "[+]" "%20" }}'
"""Path of a cluster's pages. Go's urlquery turns a space into a plus, which would stay a plus in a path."""

HOME: Final = "/"


class Links(NamedTuple):
    """Base addresses of the links in annotations: the service's pages, Grafana, the runbooks (empty: the service shows
    them); each without a slash at its end.

    The defaults are those of `make demo` and deploy/compose. `python -m dashboards.rules --page … --grafana …
    --runbooks …` writes the rules with others.
    """

    page: str = "http://127.0.0.1:8080"
    grafana: str = "http://127.0.0.1:3000"
    runbooks: str = ""

    def runbook(self, alert: str) -> str:
        where = self.runbooks or f"{self.page}/guide/runbooks"
        return f"{where}/{alert}.md"


class Recording(NamedTuple):
    record: str
    expr: str

    def render(self, _links: Links) -> dict[str, Any]:
        return {"record": self.record, "expr": self.expr}


class Alert(NamedTuple):
    """An alerting rule. `wait`: time for which the expression must hold (`for`); empty: the alert fires at once.
    `page`: path of the service's page about it; `board`: uid of the dashboard. `labels` come after severity and
    service. `keep`: time for which it goes on firing when the expression no longer holds (`keep_firing_for`)."""

    name: str
    expr: str
    severity: str
    summary: str
    description: str
    page: str
    board: str
    wait: str = ""
    keep: str = ""
    labels: Mapping[str, str] = {}

    def render(self, links: Links) -> dict[str, Any]:
        rule: dict[str, Any] = {"alert": self.name, "expr": self.expr}
        if self.wait:
            rule["for"] = self.wait
        if self.keep:
            rule["keep_firing_for"] = self.keep
        rule["labels"] = {"severity": self.severity, "service": SERVICE, **self.labels}
        of_cluster = "?var-cluster={{ $labels.cluster | urlquery }}" if OF_CLUSTER in self.page else ""
        rule["annotations"] = {
            "summary": self.summary,
            "description": self.description,
            "runbook_url": links.runbook(self.name),
            "page_url": links.page + self.page,
            "dashboard_url": f"{links.grafana}/d/{self.board}{of_cluster}",
        }
        return rule


class Group(NamedTuple):
    """Rules that are evaluated one after another. `interval`: time between evaluations; empty: Prometheus' setting."""

    name: str
    rules: tuple[Recording | Alert, ...]
    interval: str = ""

    def render(self, links: Links) -> dict[str, Any]:
        head: dict[str, Any] = {"name": self.name}
        if self.interval:
            head["interval"] = self.interval
        return head | {"rules": [rule.render(links) for rule in self.rules]}

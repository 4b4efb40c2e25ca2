"""Types for Prometheus' rules and groups, helpers for their expressions, and the labels and links that every alert
gets: severity, runbook, pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from dashboards.shared import SERVICE
from service.domain.findings.catalogue import alert_of
from service.domain.findings.kinds import Kind, Status
from service.metrics.catalogue import FINDINGS, Metric

CLUSTER = "cluster"

JOB: Final = ".*txnscope.*"
"""Pattern of the names of the service's scrape jobs. Expressions select `up` by this pattern, because `up` has no label
of txnscope. `python -m dashboards.rules --job` sets another pattern."""


def pick(metric: Metric, **labels: str | tuple[str, ...]) -> str:
    """Returns a selector of `metric`. If a label has several values, each of them matches. Raises ValueError for a
    label that the metric does not have."""
    if unknown := labels.keys() - {CLUSTER, *metric.labels}:
        raise ValueError(f"{metric.name} has no label {', '.join(sorted(unknown))}")
    matchers = [
        f'{name}="{value}"' if isinstance(value, str) else f'{name}=~"{"|".join(value)}"'
        for name, value in labels.items()
    ]
    return f"{metric.name}{{{','.join(matchers)}}}" if matchers else metric.name


def most(selector: str, *by: str) -> str:
    """Returns the expression for the highest value, by cluster and the labels `by`. Several services may report the
    same value from one store."""
    return f"max by ({', '.join((CLUSTER, *by))}) ({selector})"


def grown(metric: Metric, window: str, *by: str, **labels: str | tuple[str, ...]) -> str:
    """Returns the expression for the increase of one of the store's counters in the window, by cluster and the labels
    `by`. All services of a store report the same counter, so the highest of their values counts, not the sum."""
    return most(f"increase({pick(metric, **labels)}[{window}])", *by)


CRITICAL: Final = "critical"
WARNING: Final = "warning"
INFO: Final = "info"
NONE: Final = "none"
SEVERITIES: Final = (CRITICAL, WARNING, INFO, NONE)
"""Severities of alerts. CRITICAL pages somebody; WARNING opens a ticket; INFO is shown only on dashboards; NONE is the
severity of the heartbeat."""

OF_CLUSTER: Final = '/clusters/{{ $labels.cluster | urlquery | reReplaceAll "[+]" "%20" }}'
"""Path of a cluster's pages. Go's urlquery turns a space into a plus, and in a path a plus does not mean a space."""

FINDINGS_PAGE: Final = OF_CLUSTER + "/findings"


class Links(NamedTuple):
    """Base addresses of the links in annotations: the service's pages, Grafana, the runbooks (empty: the service shows
    them); each without a slash at its end.

    The defaults are those of `make demo` and deploy/compose. `python -m dashboards.rules --page … --grafana …
    --runbooks …` writes the rules with other addresses.
    """

    page: str = "http://127.0.0.1:8080"
    grafana: str = "http://127.0.0.1:3000"
    runbooks: str = ""


class Recording(NamedTuple):
    record: str
    expr: str


class Alert(NamedTuple):
    """An alerting rule. `wait`: time for which the expression must hold (`for`); empty: the alert fires at once.
    `page`: path of the service's page about the problem; `board`: uid of the dashboard; if one is empty, the group's is
    used. `labels` are added after severity and service. `keep`: time for which the alert goes on firing when the
    expression no longer holds (`keep_firing_for`). `stays_true`: True if the reported problem does not end by itself.
    Then old data do not mute the alert."""

    name: str
    expr: str
    severity: str
    summary: str
    description: str
    page: str = ""
    board: str = ""
    wait: str = ""
    keep: str = ""
    labels: Mapping[str, str] = {}
    stays_true: bool = False


def confirmed(kind: Kind) -> str:
    """Returns the expression for the number of confirmed findings of the kind, by cluster."""
    return most(pick(FINDINGS, kind=kind, status=Status.CONFIRMED))


def on_finding(kind: Kind, **more: Any) -> Alert:
    """Returns an alert that fires while a finding of the kind is confirmed. `more`: further fields of Alert."""
    return Alert(name=alert_of(kind), expr=f"{confirmed(kind)} > 0", **more)


class Group(NamedTuple):
    """Rules that are evaluated one after another. `board`, `page`: the defaults for alerts of the group. `rests_on`:
    the value of the label `source` of the alerts, which names the data on which the alerts rest. The alerts are muted
    if these data are old. `interval`: time between evaluations; empty: Prometheus' setting."""

    name: str
    rules: tuple[Recording | Alert, ...]
    board: str = ""
    rests_on: str = ""
    page: str = FINDINGS_PAGE
    interval: str = ""

    def render(self, links: Links, fit: Callable[[str], str], labels: Mapping[str, str]) -> dict[str, Any]:
        """Returns the group as Prometheus reads it. `fit` is applied to each expression. Every alert gets `labels` and
        then its other labels, which replace those of the same name."""
        rules = [
            rule._asdict() if isinstance(rule, Recording) else self._alert(rule, links, labels) for rule in self.rules
        ]
        for rule in rules:
            rule["expr"] = fit(rule["expr"])
        interval = {"interval": self.interval} if self.interval else {}
        return {"name": self.name, **interval, "rules": rules}

    def _alert(self, alert: Alert, links: Links, labels: Mapping[str, str]) -> dict[str, Any]:
        source = {"source": self.rests_on} if self.rests_on and not alert.stays_true else {}
        page = alert.page or self.page
        of_cluster = "?var-cluster={{ $labels.cluster | urlquery }}" if OF_CLUSTER in page else ""
        rule = {
            "alert": alert.name,
            "expr": alert.expr,
            "for": alert.wait,
            "keep_firing_for": alert.keep,
            "labels": {**labels, "severity": alert.severity, "service": SERVICE, **alert.labels, **source},
            "annotations": {
                "summary": alert.summary,
                "description": alert.description,
                "runbook_url": f"{links.runbooks or links.page + '/guide/runbooks'}/{alert.name}.md",
                "page_url": links.page + page,
                "dashboard_url": f"{links.grafana}/d/{alert.board or self.board}{of_cluster}",
            },
        }
        return {key: value for key, value in rule.items() if value}

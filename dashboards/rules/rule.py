"""What a rule is, and what every alert gets from its name and place: severity, runbook, links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

CRITICAL: Final = "critical"
WARNING: Final = "warning"
INFO: Final = "info"
NONE: Final = "none"
SEVERITIES: Final = (CRITICAL, WARNING, INFO, NONE)
"""Page; ticket; shown on dashboards only; the heartbeat."""

SERVICE: Final = "txnscope"
"""Label `service` of all our alerts."""

OF_CLUSTER: Final = '/clusters/{{ $labels.cluster | urlquery | reReplaceAll "[+]" "%20" }}'
"""Path of a cluster's pages. Go's urlquery makes a space a plus, which a path would keep."""

HOME: Final = "/"


class Links(NamedTuple):
    """Where annotations lead: the service's pages, Grafana, the runbooks (empty: the service shows them); each without
    a slash at its end.

    These are where `make demo` and deploy/compose serve them. `python -m dashboards.rules --page … --grafana …
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
    """`wait`: how long the expression must hold (`for`); empty: it fires at once. `page`: path of the page that says
    more; `board`: uid of the dashboard. `labels` come after severity and service. `keep`: how long it goes on firing
    when the expression does not hold any more (`keep_firing_for`)."""

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
    """Rules that are evaluated one after another. `interval`: how often; empty: as Prometheus is set."""

    name: str
    rules: tuple[Recording | Alert, ...]
    interval: str = ""

    def render(self, links: Links) -> dict[str, Any]:
        head: dict[str, Any] = {"name": self.name}
        if self.interval:
            head["interval"] = self.interval
        return head | {"rules": [rule.render(links) for rule in self.rules]}

"""Tests that rules use only metric names, labels and label values that the service exports."""

from __future__ import annotations

import re

from dashboards.rules.rule import Links
from tests.dashboards.conftest import Series
from tests.dashboards.rules.files import ALERTS, COMMITTED, EXPRESSIONS
from tests.helpers.partitions import WithPartitions
from tests.helpers.stores import client_of

SELECTOR = re.compile(r"\b(kafka_txn_\w+|up)\b(?:\{([^}]*)\})?(?!:)")
MATCHER = re.compile(r'(\w+)(=~|=)"([^"]*)"')
GROUPED = re.compile(r"\b(?:max|min|count|sum) by \(([^)]*)\) \(\s*(?:\w+\()?(kafka_txn_\w+)")
RECORDED = re.compile(r"\bcluster\w*:\w+:\w+\b")
OF_TARGETS = {"job", "instance"}
"""Labels that Prometheus itself adds to every series."""


def test_every_selector_finds_a_series(series: Series) -> None:
    asked = {match.groups() for expr in EXPRESSIONS for match in SELECTOR.finditer(RECORDED.sub("", expr))}
    assert len(asked) > 20
    for name, matchers in asked:
        wanted = MATCHER.findall(matchers or "")
        assert any(
            all(re.fullmatch(value, labels.get(label, "")) for label, _, value in wanted)
            for labels in series.get(name, [])
        ), f"the service exports no series for {name}{{{matchers or ''}}}"


def test_every_label_of_a_grouping_exists(series: Series) -> None:
    grouped = {match.groups() for expr in EXPRESSIONS for match in GROUPED.finditer(expr)}
    assert len(grouped) > 15
    for labels, name in grouped:
        assert set(labels.split(", ")) <= series[name][0].keys() | OF_TARGETS, (
            f"{name} lacks a label of `by ({labels})`"
        )


def test_every_label_of_an_annotation_is_one_of_the_alert() -> None:
    """Annotations must use only labels that the expression keeps, because a template prints nothing for a dropped
    label."""
    for alert in ALERTS:
        used = set(re.findall(r"\$labels\.(\w+)", " ".join(alert["annotations"].values())))
        by = re.findall(r"(?:max|min|count|sum) by \(([^)]*)\)", alert["expr"])
        kept = set(by[0].split(", ")) if by else {"job", "instance", "cluster"}
        assert used <= kept | alert["labels"].keys(), alert["alert"]


def test_every_recorded_name_has_its_recording_rule() -> None:
    recorded = {rule["record"] for group in COMMITTED["groups"] for rule in group["rules"] if "record" in rule}
    assert {name for expr in EXPRESSIONS for name in RECORDED.findall(expr)} <= recorded


def test_every_page_that_is_linked_is_served(seeded: WithPartitions, series: Series) -> None:
    (hanging,) = series["kafka_txn_hanging_info"]
    (application,) = {labels["application"] for labels in series["kafka_txn_application_oldest_open_timestamp_seconds"]}
    values = {"state": "PrepareCommit", "application": application, **hanging}
    with client_of(seeded.url) as client:
        for alert in ALERTS:
            template = alert["annotations"]["page_url"].removeprefix(Links().page)
            path = re.sub(r"\{\{ \$labels\.(\w+).*?\}\}", lambda label: values[label[1]], template)
            answer = client.get(path)
            assert answer.status_code == 200, f"{alert['alert']}: {path}"
            assert answer.headers["content-type"].startswith("text/html")

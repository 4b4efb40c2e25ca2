"""Tests that each alert has a meaning, a page and a remedy, and that a hanging transaction pages at once. Also runs
promtool: the rules must be well formed, and each alert must fire in one test and not fire in another one."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dashboards.rules import hanging, pipeline, transactions
from dashboards.rules.build import RULES
from dashboards.rules.rule import SEVERITIES, Links
from dashboards.rules.service import WATCHDOG
from dashboards.shared import SERVICE
from service.web.guide import GUIDE, RUNBOOKS, guide_names
from tests.dashboards.rules.files import ALERTS, COMMITTED, NAMES, TESTS, accepts, expectations
from tests.helpers.paths import ROOT

BOARDS = {json.loads(path.read_text("utf-8"))["uid"] for path in (ROOT / "dashboards" / "grafana").glob("*.json")}
HANGING = [alert for alert in ALERTS if alert["alert"] == hanging.NAME]


@pytest.fixture(params=ALERTS, ids=lambda one: f"{one['alert']}-{one['labels']['severity']}")
def alert(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


def test_an_alert_has_a_severity_and_every_annotation(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in SEVERITIES
    assert alert["labels"]["service"] == SERVICE
    notes = alert["annotations"]
    assert set(notes) == {"summary", "description", "runbook_url", "page_url", "dashboard_url"}
    assert len(notes["description"]) > len(notes["summary"])
    assert notes["runbook_url"] == f"{Links().page}{RUNBOOKS}/{alert['alert']}.md"
    assert notes["runbook_url"].removeprefix(f"{Links().page}{GUIDE}/") in guide_names()


def test_the_linked_dashboard_exists(alert: dict[str, Any]) -> None:
    uid = alert["annotations"]["dashboard_url"].removeprefix(Links().grafana + "/d/").partition("?")[0]
    assert uid in BOARDS


def test_the_text_of_an_alert_contains_its_value(alert: dict[str, Any]) -> None:
    """An alert about presence or absence has no value, and is exempt."""
    is_a_state = "absent(" in alert["expr"] or "vector(" in alert["expr"] or alert["expr"].endswith("== 0")
    text = alert["annotations"]["summary"] + alert["annotations"]["description"]
    assert ("$value" in text) or is_a_state


def test_a_hanging_transaction_pages_at_once_and_leads_to_its_finding() -> None:
    each, more = HANGING
    for one in HANGING:
        assert "for" not in one
        assert one["labels"]["severity"] == "critical"
        assert "source" not in one["labels"], "an alert with a source is muted when this source is stale"
    assert each["annotations"]["page_url"].endswith("/findings/{{ $labels.finding }}")
    assert "finding" in each["expr"]
    assert more["labels"]["scope"] == "cluster"
    (interval,) = (group["interval"] for group in COMMITTED["groups"] if HANGING[0] in group["rules"])
    assert interval == "10s", "the rule must be evaluated more often than once a minute, the default of Prometheus"


def test_an_alert_about_data_names_its_source() -> None:
    """An alert with the label of a source is muted while the data of that source are stale. Alerts about hanging, lost
    or torn transactions have no such label: a transaction stays hanging, lost or torn even if nothing is read."""
    stays = {hanging.NAME, transactions.LOST.name, transactions.TORN.name}
    rests_on_none = {*stays, *(alert["alert"] for alert in ALERTS if alert["alert"].startswith("KafkaTxn"))}
    for one in ALERTS:
        if one["alert"] not in rests_on_none:
            assert one["labels"]["source"] in ("transaction_state", "partitions"), one["alert"]
    from_metric = [a.expr for a in (pipeline.STALE, *pipeline.NEVER, pipeline.COVERAGE_LOW, pipeline.LAGGING)]
    assert all("by (cluster, source)" in expr for expr in from_metric)


def test_the_rules_are_well_formed() -> None:
    accepts("promtool", "check", "rules", "--lint=all", "--lint-fatal", RULES)


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_promtool_tests_of_the_rules_pass(path: Path) -> None:
    accepts("promtool", "test", "rules", path.name)


def test_every_alert_fires_in_a_test() -> None:
    fires = Counter(expectation.name for expectation in expectations() if expectation.alerts)
    assert sorted(fires) == NAMES


def test_every_alert_has_a_test_in_which_it_does_not_fire() -> None:
    """The alert that always fires is exempt."""
    silent = Counter(expectation.name for expectation in expectations() if not expectation.alerts)
    assert sorted({*silent, WATCHDOG.name}) == NAMES


def test_every_test_expects_what_people_read() -> None:
    for expected in expectations():
        for alert in expected.alerts:
            notes = alert["exp_annotations"]
            assert {"summary", "description", "page_url"} <= notes.keys(), expected
            assert len(notes["summary"]) <= 80, expected
            assert not any("{{" in text or "<error" in text for text in notes.values()), expected

"""Each alert says what it means, where to look and what to do; and those that must not wait, do not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dashboards.rules import hanging, pipeline, transactions
from dashboards.rules.rule import SERVICE, SEVERITIES, Links
from service.web.guide import GUIDE, RUNBOOKS, guide_names
from tests.dashboards.rules.files import ALERTS, COMMITTED
from tests.helpers.paths import ROOT

BOARDS = {json.loads(path.read_text("utf-8"))["uid"] for path in (ROOT / "dashboards" / "grafana").glob("*.json")}
HANGING = [one for one in ALERTS if one["alert"] == hanging.NAME]


@pytest.fixture(params=ALERTS, ids=lambda one: f"{one['alert']}-{one['labels']['severity']}")
def alert(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


def test_an_alert_has_a_severity_and_all_that_people_need(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in SEVERITIES
    assert alert["labels"]["service"] == SERVICE
    notes = alert["annotations"]
    assert set(notes) == {"summary", "description", "runbook_url", "page_url", "dashboard_url"}
    assert len(notes["description"]) > len(notes["summary"])
    assert notes["runbook_url"] == f"{Links().page}{RUNBOOKS}/{alert['alert']}.md"
    assert notes["runbook_url"].removeprefix(f"{Links().page}{GUIDE}/") in guide_names()


def test_the_dashboard_exists(alert: dict[str, Any]) -> None:
    uid = alert["annotations"]["dashboard_url"].removeprefix(Links().grafana + "/d/").partition("?")[0]
    assert uid in BOARDS


def test_a_value_is_told_where_there_is_one_to_tell(alert: dict[str, Any]) -> None:
    """Of what is only there or not, the value says nothing."""
    is_a_state = "absent(" in alert["expr"] or "vector(" in alert["expr"] or alert["expr"].endswith("== 0")
    text = alert["annotations"]["summary"] + alert["annotations"]["description"]
    assert ("$value" in text) or is_a_state


def test_a_hanging_transaction_pages_at_once_and_leads_to_its_finding() -> None:
    each, more = HANGING
    for one in HANGING:
        assert "for" not in one
        assert one["labels"]["severity"] == "critical"
        assert "source" not in one["labels"], "what names a source is muted when that is stale"
    assert each["annotations"]["page_url"].endswith("/findings/{{ $labels.finding }}")
    assert "finding" in each["expr"]
    assert more["labels"]["scope"] == "cluster"
    (interval,) = (group["interval"] for group in COMMITTED["groups"] if HANGING[0] in group["rules"])
    assert interval == "10s", "the default of Prometheus is a minute"


def test_what_rests_on_data_names_its_source() -> None:
    """Otherwise old data would go on waking people. What hangs, is lost or is torn stays so while nothing is read."""
    stays = {hanging.NAME, transactions.LOST.name, transactions.TORN.name}
    rests_on_none = {*stays, *(one["alert"] for one in ALERTS if one["alert"].startswith("KafkaTxn"))}
    for one in ALERTS:
        if one["alert"] not in rests_on_none:
            assert one["labels"]["source"] in ("transaction_state", "partitions"), one["alert"]
    from_metric = [a.expr for a in (pipeline.STALE, *pipeline.NEVER, pipeline.COVERAGE_LOW, pipeline.LAGGING)]
    assert all("by (cluster, source)" in expr for expr in from_metric)

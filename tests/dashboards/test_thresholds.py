"""Tests that thresholds have one definition, so that the colors of panels, the alerts and the judgement of the service
agree."""

from __future__ import annotations

import re

from dashboards import shared
from dashboards.rules.build import alerts
from service.domain.findings import ids_running_out, kinds, open_too_long
from service.domain.transaction_log.transitions import LAST_EPOCH
from service.views.cluster import frame
from service.views.cluster.metric_facts import EXPIRES_WITHIN_MS
from tests.dashboards.boards import FILES, Json, load, panels


def test_the_service_and_the_alerts_use_the_same_limits() -> None:
    assert shared.STALE_WARN_S * 1000 == frame.OLD_MS
    assert shared.STALE_S * 1000 == frame.UNKNOWN_MS
    assert shared.PREPARE_SLOW_S * 1000 == open_too_long.STUCK_AFTER_MS
    assert shared.PREPARE_STUCK_S * 1000 == kinds.CRITICAL_AFTER_MS
    assert shared.OPEN_LONG_S * 1000 == open_too_long.LONG_AFTER_MS
    assert (shared.EPOCH_WARN, shared.EPOCH_LAST) == (ids_running_out.HIGH_EPOCH_FROM, LAST_EPOCH - 1)
    assert EXPIRES_WITHIN_MS[shared.EXPIRING_WITHIN] == ids_running_out.SOON_MS


def steps_of(panel: Json) -> set[float]:
    """Returns the thresholds of the panel, and of the columns if the panel is a table."""
    config = panel["fieldConfig"]
    found = [config["defaults"]["thresholds"]["steps"]]
    for override in config["overrides"]:
        found += [one["value"]["steps"] for one in override["properties"] if one["id"] == "thresholds"]
    return {step["value"] for steps in found for step in steps if step.get("value") is not None}


def test_every_threshold_is_one_of_the_constants() -> None:
    known = {value for value in vars(shared).values() if isinstance(value, int | float)}
    for panel in (panel for file in FILES for panel in panels(load(file))):
        unnamed = {step for step in steps_of(panel) if step > 0.001} - known
        assert unnamed <= {1}, panel["title"]


def fires_from(expr: str) -> set[float]:
    """Returns the numbers with which the alert's expression compares values. For `> 0`, returns 1, the first count
    above 0."""
    compared = re.findall(r"(>=|>|<|==) (?:time\(\) - )?([0-9.]+)", expr)
    return {1.0 if (sign, number) == (">", "0") else float(number) for sign, number in compared}


def test_a_panel_changes_its_colour_where_its_alerts_fire() -> None:
    expressions: dict[str, list[str]] = {}
    for alert in alerts():
        expressions.setdefault(alert.name, []).append(alert.expr)
    reported = 0
    for panel in (panel for file in FILES for panel in panels(load(file))):
        for name in re.findall(r"Kafka\w+", " ".join(re.findall(r"Alert: (.*?)\.", panel["description"]))):
            reported += 1
            fires = set().union(*map(fires_from, expressions[name]))
            turns = steps_of(panel) | ({0.0} if panel["title"] == "Service answers" else set())
            assert fires & turns, f"{panel['title']} changes its colour at {turns}, but {name} compares with {fires}"
    assert reported > 20

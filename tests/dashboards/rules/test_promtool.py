"""Prometheus' own tools: the rules are well formed, every alert fires in one test and stays silent in another."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from dashboards.rules.build import RULES
from dashboards.rules.service import WATCHDOG
from tests.dashboards.rules.files import NAMES, TESTS, expectations, run


def test_the_rules_are_well_formed() -> None:
    done = run("promtool", "check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_alerts_fire_when_they_should_and_not_else(path: Path) -> None:
    done = run("promtool", "test", "rules", path.name)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_in_a_test() -> None:
    fires = Counter(one.name for one in expectations() if one.alerts)
    assert sorted(fires) == NAMES


def test_every_alert_stays_silent_in_a_test() -> None:
    """But the one that always fires."""
    silent = Counter(one.name for one in expectations() if not one.alerts)
    assert sorted({*silent, WATCHDOG.name}) == NAMES


def test_every_test_expects_what_people_read() -> None:
    for expected in expectations():
        for alert in expected.alerts:
            notes = alert["exp_annotations"]
            assert {"summary", "description", "page_url"} <= notes.keys(), expected
            assert len(notes["summary"]) <= 80, expected
            assert not any("{{" in text or "<error" in text for text in notes.values()), expected

"""Reads the files of dashboards/rules, and runs the programs that check them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

from dashboards.rules.build import PROMETHEUS_RULE, RULES
from tests.helpers.paths import ROOT
from tests.helpers.waiting import LIMIT_S

FOLDER: Final = ROOT / "dashboards" / "rules"
RUNBOOKS: Final = ROOT / "docs" / "runbooks"
ALERTMANAGER: Final = FOLDER / "alertmanager.example.yml"
TESTS: Final = sorted(FOLDER.glob("*.test.yml"))


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


COMMITTED: Final[dict[str, Any]] = load(FOLDER / RULES)
WRAPPED: Final[dict[str, Any]] = load(FOLDER / PROMETHEUS_RULE)
ALERTS: Final[list[dict[str, Any]]] = [r for g in COMMITTED["groups"] for r in g["rules"] if "alert" in r]
NAMES: Final = sorted({alert["alert"] for alert in ALERTS})
EXPRESSIONS: Final[list[str]] = [rule["expr"] for group in COMMITTED["groups"] for rule in group["rules"]]


class Expected(NamedTuple):
    """The alerts that a test of promtool expects at one moment."""

    file: str
    name: str
    alerts: list[dict[str, Any]]


def expectations() -> Iterator[Expected]:
    for path in TESTS:
        for test in load(path)["tests"]:
            for one in test.get("alert_rule_test", []):
                yield Expected(path.name, one["alertname"], one["exp_alerts"])


def run(program: str, *arguments: str | Path, cwd: Path = FOLDER) -> subprocess.CompletedProcess[str]:
    """Runs the program. Skips the test if the program is not installed (`make system-packages` installs it)."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed (make system-packages)")
    return subprocess.run([path, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=LIMIT_S)


def accepts(program: str, *arguments: str | Path) -> None:
    done = run(program, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr

"""A pytest plugin (`-p tests.matrix.recorder`) that records a run on one version of Kafka.

Runs and records only the tests that have the version in TXNSCOPE_TEST_VERSIONS as a parameter, because other tests show
nothing about this version. Tests add three things to the record: the abilities of the version
(`record_property(ABILITIES, …)`), behavior that only some versions have (SEEN), and the findings and causes that
txnscope reported (`tell`).
"""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from tests.helpers.brokers import VERSIONS

RECORD: Final = "TXNSCOPE_TEST_RECORD"
"""Environment variable with the path of the file to which the run is recorded."""
ABILITIES: Final = "abilities"
SEEN: Final = "seen"
CAUSE: Final = "cause"
"""The `kind` for `tell` if the text is a cause and its confidence, from a row of an id's history. For a finding, `kind`
is the kind of the finding."""

_TOLD: Final = "told"
_WORST_FIRST: Final = ("failed", "skipped", "passed")
_started_s: Final = time.monotonic()
_scenarios: Final[dict[str, dict[str, Any]]] = {}
_abilities: Final[dict[str, Any]] = {}
_told: Final[dict[tuple[str, str], str]] = {}


def tell(kind: str, text: str, why: str = "") -> None:
    """Records what txnscope reported in the current test. `kind`: the kind of a finding, or CAUSE. `why`: the reason,
    if txnscope gave one."""
    _told.setdefault((str(kind), text), why)  # pytest-xdist sends plain values only, and no members of an enum


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept = [item for item in items if _runs_on(item, VERSIONS[0])]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def _runs_on(item: pytest.Item, version: str) -> bool:
    call = getattr(item, "callspec", None)
    return call is not None and version in (call.params.get("version"), call.params.get("broker"))


def pytest_runtest_setup() -> None:
    _told.clear()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Adds what the test recorded with `tell` to the test's report, which a pytest-xdist worker sends to the main
    process."""
    if call.when == "call":
        item.user_properties += [(_TOLD, [*one, why]) for one, why in _told.items()]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Adds a phase of a test (setup, call or teardown) to the test's entry: worst outcome, sum of times, and at the end
    what the test recorded with `tell`."""
    name = report.nodeid.removeprefix("tests/").replace(f"[{VERSIONS[0]}]", "").replace(f"-{VERSIONS[0]}]", "]")
    one = _scenarios.setdefault(name, {"outcome": "passed", "seconds": 0.0, SEEN: [], _TOLD: []})
    one["outcome"] = min(one["outcome"], report.outcome, key=_WORST_FIRST.index)
    one["seconds"] = round(one["seconds"] + report.duration, 1)
    if report.when == "teardown":
        for key, value in report.user_properties:
            if key in (SEEN, _TOLD):
                one[key].append(value)
            elif key == ABILITIES:
                assert isinstance(value, dict)
                _abilities.update(value)


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = os.environ.get(RECORD)
    was_whole = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    if path is None or hasattr(session.config, "workerinput") or not (was_whole and _scenarios):
        return
    record = {
        "version": VERSIONS[0],
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": round(time.monotonic() - _started_s),
        "workers": session.config.getoption("numprocesses", None) or 1,
        **_abilities,
        "scenarios": dict(sorted(_scenarios.items())),
    }
    Path(path).write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")

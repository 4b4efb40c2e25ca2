"""Runs the HTTP fuzzer for a short time; `make fuzz-http` runs it for long."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

from tests.fuzz.http.requests import make
from tests.helpers.paths import ROOT
from tests.helpers.waiting import LIMIT_S

REQUESTS = 800


def test_mutated_requests_are_answered_and_none_with_a_5xx() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.http", "--requests", str(REQUESTS), "--seed", "2"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    statuses = set(re.findall(r"(\w+) [\d,]+[,;]", run.stdout))
    assert statuses >= {"200", "400", "404", "405", "422"}, "the requests must cause all usual statuses"


def test_requests_are_repeatable_and_mostly_different() -> None:
    made = Counter(make(3, number) for number in range(500))
    assert made == Counter(make(3, number) for number in range(500))
    assert len(made) > 450

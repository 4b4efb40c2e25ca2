"""Transactions at a steady rate from a process of their own (`tests.benchmarks.load`), as long as a block lasts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.integration.application import ROOT

TIMEOUT_S = 120


class Load:
    rate = 0.0
    """Transactions/s that were committed, known when the load has ended."""


@contextmanager
def loading(bootstrap: str, topic: str, rate: float, ids: int) -> Iterator[Load]:
    arguments = [sys.executable, "-m", "tests.benchmarks.load", bootstrap, topic, str(rate), str(ids)]
    process = subprocess.Popen(arguments, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    load = Load()
    try:
        process.stdout.readline()
        yield load
        said, _ = process.communicate(timeout=TIMEOUT_S)
        done, seconds = said.split()
        load.rate = int(done) / float(seconds)
    finally:
        process.kill()
        process.wait()

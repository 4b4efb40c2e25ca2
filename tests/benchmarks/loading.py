"""Runs a load in a process of its own until a block ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.helpers.paths import ROOT
from tests.helpers.waiting import LIMIT_S

TIMEOUT_S = LIMIT_S


class Load:
    said: tuple[str, ...] = ()
    """The words of the last line that the load printed; empty until the load has ended."""


@contextmanager
def loading(module: str, *arguments: object) -> Iterator[Load]:
    """Runs `python -m module …` during the block. The module prints a line when it has started. When its standard input
    ends, it prints its result and ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    load = Load()
    try:
        process.stdout.readline()
        yield load
        said, _ = process.communicate(timeout=TIMEOUT_S)
        load.said = tuple(said.split())
    finally:
        process.kill()
        process.wait()

"""The healthy clients as a process: it ends when it is told to, or it is ended."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tests.integration.application import ROOT

_END_S = 120


@contextmanager
def working(bootstrap: str, *, hold_s: float, hangs: int) -> Iterator[Counter[str]]:
    """What they did, by kind of client, once the block has ended; every transaction is finished then."""
    done: Counter[str] = Counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.soak.clients", bootstrap, str(hold_s), str(hangs)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield done
        told, _ = process.communicate(timeout=_END_S)
        assert process.returncode == 0, f"the clients ended with {process.returncode}"
        done.update(json.loads(told))
    finally:
        process.kill()
        process.communicate()

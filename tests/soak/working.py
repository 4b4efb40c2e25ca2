"""Runs the healthy clients as a process. The process ends when its standard input ends, or when it is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.helpers.paths import ROOT
from tests.helpers.waiting import LIMIT_S
from tests.soak.clients import Key


class Work(NamedTuple):
    """The work of the clients. `done` and `abandoned`, as in `Clients`, are filled when the `with` block has ended
    without an error. `check` raises AssertionError if the process has failed."""

    done: Counter[str]
    abandoned: set[Key]
    check: Callable[[], None]


@contextmanager
def working(bootstrap: str, *, hold_s: float, hangs: int) -> Iterator[Work]:
    """Runs the clients until the `with` block ends, and then until every transaction is finished. If the block raises
    an error, kills the clients instead. Raises AssertionError if the clients have failed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.soak.clients", bootstrap, str(hold_s), str(hangs)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def check() -> None:
        assert process.poll() in (None, 0), f"the clients ended with {process.returncode}"

    work = Work(Counter(), set(), check)
    try:
        yield work
        output, _ = process.communicate(timeout=LIMIT_S)
        check()
        ended = json.loads(output)
        work.done.update(ended["done"])
        work.abandoned.update((topic, *numbers) for topic, *numbers in ended["abandoned"])
    finally:
        process.kill()
        process.communicate()

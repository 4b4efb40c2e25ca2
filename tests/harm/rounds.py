"""One harm after the other, each measured: how long until every source moves again and the service answers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.harm.watched import Watch
from tests.waiting import wait_for, wait_until

KILL: Final = "killed"
FREEZE: Final = "frozen"
SIGNALS: Final = {KILL: signal.SIGKILL, FREEZE: signal.SIGSTOP}

UNNOTICED_S: Final = 45.0
"""A frozen process that nobody needed for so long does no harm: a daemon forks workers only where there are too few."""

_UNDER_WAY_S: Final = 1.0
"""What was read before the harm may still be stored for a moment after it."""


class Round(NamedTuple):
    """`how`: KILL or FREEZE. `gone_s`: until the victims were gone, None where nobody needed them. `again_s`: until
    every source was read at a time after that, and the service answered."""

    how: str
    kinds: tuple[str, ...]
    gone_s: float | None
    again_s: float


def harm(app: Watch, how: str, kinds: Sequence[str]) -> Round:
    """Does it, and waits until all goes on. AssertionError, with what was seen last, if it does not."""
    victims = [app.victim(kind) for kind in kinds]
    what = f"{' and '.join(kinds)} {how}; {app.log}"
    began = time.time()
    for pid in victims:
        os.kill(pid, SIGNALS[how])

    def noticed() -> bool:
        return not left(victims) or (how == FREEZE and time.time() - began > UNNOTICED_S)

    wait_for(noticed, f"the end of {what}")
    gone_s = None if left(victims) else time.time() - began
    for pid in left(victims):
        os.kill(pid, signal.SIGKILL)
    since_s = began + (gone_s or 0) + _UNDER_WAY_S
    wait_until(
        lambda: (min(app.as_of_ms().values()) / 1000 - since_s, app.is_serving()),
        lambda seen: seen[0] > 0 and seen[1],
        f"sources that move (s after the end) and a service that answers, {what}",
    )
    return Round(how, tuple(kinds), gone_s, time.time() - began - _UNDER_WAY_S)


def left(victims: Sequence[int]) -> list[int]:
    """Of these processes, those that have not ended."""
    found = []
    for pid in victims:
        try:
            with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123
                if stat.read().rpartition(")")[2].split()[0] != "Z":
                    found.append(pid)
        except OSError:
            continue
    return found

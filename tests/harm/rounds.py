"""Harms processes, and measures the time until every source is read again and the service answers."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import psutil

from service.store.errors import StoreUnavailable
from tests.benchmarks.figures import percentile
from tests.harm.watched import SERVICE, Watch
from tests.helpers.processes import send, still_running
from tests.helpers.waiting import wait_until

KILL: Final = "killed"
FREEZE: Final = "frozen"
SIGNALS: Final = {KILL: signal.SIGKILL, FREEZE: signal.SIGSTOP}

UNNOTICED_S: Final = 45.0
"""Seconds to wait until a freeze is noticed. If no process notices the freeze, the frozen process was not needed. For
example, a daemon forks workers only if there are too few."""

_UNDER_WAY_S: Final = 1.0
"""Time (s) after the harm during which the application may still store data that it read before the harm."""


class Round(NamedTuple):
    """The result of one round.

    - `how`: KILL or FREEZE.
    - `gone_s`: seconds from the harm until all victims had ended; None if a victim had not ended by the end of the
      round.
    - `stood_s`: the longest time in which some source was not read, or the service did not answer.
    """

    how: str
    kinds: tuple[str, ...]
    gone_s: float | None
    stood_s: float


class Series(NamedTuple):
    """The rounds of one kind of harm, in one kind of situation.

    - `is_exact`: afterwards the store had all of the log, without a data gap.
    - `tracebacks`: the number of log lines that belong to tracebacks.
    """

    version: str
    when: str
    how: str
    rounds: list[Round]
    is_exact: bool
    tracebacks: int

    @property
    def longest_s(self) -> float:
        return max(each_round.stood_s for each_round in self.rounds)

    @property
    def median_s(self) -> float:
        return percentile([each_round.stood_s for each_round in self.rounds], 0.5)


class Standstill:
    """Measures the longest time in which a source, or the service, made no progress."""

    def __init__(self, app: Watch) -> None:
        self._app = app
        self._as_of_ms = app.as_of_ms()
        self._moved_s = dict.fromkeys((*self._as_of_ms, SERVICE), time.time())
        self.longest_s = 0.0

    def look(self) -> dict[str, float]:
        """Returns the time (time.time()) of each source's last progress, and of the service's last answer."""
        as_of_ms = self._app.as_of_ms()
        moved = [source for source, at_ms in as_of_ms.items() if at_ms > self._as_of_ms[source]]
        moved += [SERVICE] if self._app.is_serving() else []
        self._as_of_ms = as_of_ms
        for one in moved:
            self.longest_s = max(self.longest_s, time.time() - self._moved_s[one])
            self._moved_s[one] = time.time()
        return self._moved_s


def harm(app: Watch, how: str, kinds: Sequence[str]) -> Round:
    """Harms a process of each kind, and waits until all sources and the service continue. Raises AssertionError with
    the last observation if a source or the service does not continue."""
    standstill = Standstill(app)
    victims = [_hit(app, kind, SIGNALS[how]) for kind in kinds]
    began_s = time.time()
    gone_s: float | None = None

    def look() -> tuple[list[psutil.Process], dict[str, float]]:
        """Returns the remaining victims, and a mapping from each source, and SERVICE, to the seconds from the end of
        the harm to the last progress. The harm ends _UNDER_WAY_S after the victims are gone, or, if they stay,
        _UNDER_WAY_S after UNNOTICED_S."""
        nonlocal gone_s
        there = still_running(victims)
        elapsed_s = time.time() - began_s
        if not there and gone_s is None:
            gone_s = elapsed_s
        clear_s = began_s + (UNNOTICED_S if gone_s is None else gone_s) + _UNDER_WAY_S
        return there, {one: at_s - clear_s for one, at_s in standstill.look().items()}

    wait_until(
        look,
        lambda seen: min(seen[1].values()) > 0,
        f"progress of every source and of the service, with {' and '.join(kinds)} {how} (values: s from the end of the"
        f" harm to the last progress); {app.log}",
        retry_on=(StoreUnavailable,),  # a frozen process may hold the lock of the store, which blocks all reads
    )
    send(signal.SIGKILL, victims)
    return Round(how, tuple(kinds), gone_s, standstill.longest_s)


def _hit(app: Watch, kind: str, number: signal.Signals) -> psutil.Process:
    """Sends the signal to a process of this kind, and returns the process. If the process ends before it gets the
    signal, sends the signal to the next process of this kind."""
    while True:
        with suppress(psutil.NoSuchProcess):
            victim = app.victim(kind)
            victim.send_signal(number)
            return victim

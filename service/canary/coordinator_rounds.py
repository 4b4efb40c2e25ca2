"""A thread that runs the canary's rounds at one coordinator, and stores what they show."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from service.domain.canary.rounds import Coordinator, Round
from service.domain.canary.targets import Layout, Target, absence, explained, target_of

log = logging.getLogger("txnscope.canary")

SHORTEST_PAUSE_S: Final = 1.0
"""Shortest pause (s) between two rounds, however often the layout changes."""


class Prober(Protocol):
    """The interface of `service.canary.probe.Probe`, which runs single rounds."""

    def round(self, target: Target, at_ms: int) -> Round: ...

    def close(self) -> None: ...


class Clocks(NamedTuple):
    """The clocks of the canary. `now_ms`: the wall clock; `monotonic`: a monotonic clock in seconds, for pauses."""

    now_ms: Callable[[], int]
    monotonic: Callable[[], float]


class CoordinatorRounds:
    """Runs the rounds of one coordinator until `end` is called. A round begins every `every_s` seconds, and earlier if
    the target has changed. The rounds have a thread of their own, because a broker that does not answer must not delay
    the rounds of other coordinators.

    `layout`: returns the newest layout. `save`: stores the coordinator, and returns False if the rounds must end.
    """

    def __init__(
        self,
        known: Coordinator,
        token: str,
        every_s: float,
        first_after_s: float,
        layout: Callable[[], Layout],
        prober: Prober,
        save: Callable[[Coordinator], bool],
        clocks: Clocks,
    ) -> None:
        self._state, self._token = known, token
        self._every_s, self._first_after_s = every_s, first_after_s
        self._layout, self._prober, self._save, self._clocks = layout, prober, save, clocks
        self._target: Target | None = None
        self._ending = threading.Event()
        self._changed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"canary of broker {known.broker}", daemon=True)

    @property
    def broker(self) -> int:
        return self._state.broker

    def start(self) -> None:
        self._thread.start()

    def look(self, layout: Layout) -> None:
        """Begins the next round early if the layout gives this coordinator another target, or none."""
        if target_of(layout, self.broker, self._token, self._target) != self._target:
            self._changed.set()

    def end(self) -> None:
        """Ends the thread after its present round."""
        self._ending.set()
        self._changed.set()

    def join(self, within_s: float) -> None:
        self._thread.join(within_s)

    def _run(self) -> None:
        self._changed.wait(self._first_after_s)
        while True:
            self._changed.clear()
            if self._ending.is_set():  # `end` sets both, this one first
                break
            begun_s = self._clocks.monotonic()
            try:
                self._state = self._after_one(self._layout())
                if not self._save(self._state):
                    break
            except Exception:  # a bug of ours, or of a library, must not end the thread
                log.exception("%s failed", self._thread.name)
            self._ending.wait(SHORTEST_PAUSE_S)
            self._changed.wait(max(self._every_s - (self._clocks.monotonic() - begun_s), 0.0))
        self._prober.close()

    def _after_one(self, layout: Layout) -> Coordinator:
        """Runs a round if the layout has a target at the coordinator. Returns the new state of the coordinator."""
        at_ms = self._clocks.now_ms()
        target = self._target = target_of(layout, self.broker, self._token, self._target)
        if target is not None:
            one = self._prober.round(target, at_ms)
            if one.failure is not None:
                one = one._replace(failure=explained(one.failure, self._layout(), target))
            return replace(
                self._state.after(one), log_partition=target.log_partition, transactional_id=target.transactional_id
            )
        self._prober.close()
        if (why := absence(layout, self.broker)) is not None:
            return self._state.after(Round(at_ms, None, None, None, why))
        return self._state.idle(at_ms)

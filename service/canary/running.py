"""Runs the canary of one cluster under one lease: one thread reads the layout, and starts and ends a thread for each
coordinator."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from sqlalchemy import Connection, Engine

from service.canary.coordinator_rounds import Clocks, CoordinatorRounds
from service.canary.layout_watch import LayoutWatch
from service.canary.probe import Probe
from service.domain.canary.rounds import Coordinator
from service.domain.canary.targets import Layout, coordinators
from service.kafka.errors import KafkaFailure
from service.kafka.settings import ClientSettings
from service.store import canary as stored
from service.store import lease
from service.store.errors import LeaseLost, StoreError
from service.store.lease import Lease

log = logging.getLogger("txnscope.canary")

LOOK_EVERY_S: Final = 1.0
"""Pause (s) between two readings of the layout."""

NOTE_EVERY_S: Final = 5.0
FORGET_AFTER_MS: Final = 3_600_000
"""Time (ms) after which a broker that coordinates nothing any more is forgotten. If the settings list the brokers to
probe, all other brokers are forgotten at once."""

JOIN_S: Final = 6.0
"""Longest wait (s) for the end of the last rounds: a round, its abort, and the closing of its clients."""

_SPREAD_S: Final = 2.0
"""Time (s) over which the first rounds of the coordinators are spread."""


class Plan(NamedTuple):
    """The settings of one cluster's canary. `settings`: the connection, with the canary's own principal if it has one.
    `coordinators`: the brokers to probe; if there are none, all brokers that coordinate something."""

    settings: ClientSettings
    topic: str
    every_ms: int
    coordinators: tuple[int, ...] = ()


class RunningCanary:
    """Runs the rounds of one cluster's canary, at every coordinator. Call `begin` once; then call `run`, which returns
    when the lease is lost or the canary ends. `cluster_id`: the cluster's number in the store."""

    def __init__(self, engine: Engine, plan: Plan, clocks: Clocks, held: Lease, cluster_id: int) -> None:
        self._engine, self._plan, self._clocks = engine, plan, clocks
        self._held, self._cluster_id = held, cluster_id
        self._watch = LayoutWatch(plan.settings, plan.topic)
        self._layout: Layout | None = None
        self._trouble: str | None = None
        self._lost = threading.Event()
        self._token = ""
        self._known: dict[int, Coordinator] = {}
        self._unneeded_since_ms: dict[int, int] = {}
        self._rounds: dict[int, CoordinatorRounds] = {}

    def begin(self) -> None:
        """Marks the canary as running in the store, and reads what earlier rounds showed. Raises LeaseLost if the lease
        is lost, or another StoreError if the store fails."""
        with self._engine.begin() as connection:
            lease.check(connection, self._held)
            self._token = stored.begin(
                connection, self._cluster_id, self._plan.topic, self._plan.every_ms, self._clocks.now_ms()
            )
            self._known = {
                coordinator.broker: coordinator
                for coordinator in stored.read_coordinators(connection, self._cluster_id)
            }

    def run(self, ending: threading.Event) -> None:
        """Runs until `ending` is set, or the lease is lost. Sets `ending` at its end in any case."""
        noted_at_s, noted = float("-inf"), self._status
        try:
            while not self._lost.is_set():
                self._look()
                is_due = self._clocks.monotonic() - noted_at_s > NOTE_EVERY_S
                if (is_due or self._status != noted) and self._write(self._note_alive):
                    noted_at_s, noted = self._clocks.monotonic(), self._status
                if ending.wait(LOOK_EVERY_S):
                    break
        except Exception:  # a bug of ours, or of a library: the holder of the lease begins again
            log.exception("the canary failed")
        finally:
            ending.set()
            self._end()

    @property
    def _status(self) -> tuple[int, str | None]:
        """The number of leaderless partitions of the transaction log, and the reason why the layout cannot be read. The
        reason is None while the layout can be read."""
        return 0 if self._layout is None else self._layout.leaderless, self._trouble

    def _look(self) -> None:
        """Reads the layout; starts and ends the rounds of coordinators as the layout requires. While the layout cannot
        be read, the rounds go on with the previous layout, because failing rounds show the problem."""
        try:
            self._layout = self._watch.read()
            self._trouble = None
        except KafkaFailure as error:
            if str(error) != self._trouble:
                log.warning("canary: %s", error)
            self._trouble = str(error)
            return
        self._forget(self._layout)
        self._begin(self._layout)
        for each_round in self._rounds.values():
            each_round.look(self._layout)

    def _begin(self, layout: Layout) -> None:
        """Starts a thread for each coordinator that has none yet. Also starts threads for coordinators that the store
        has from earlier rounds, so that a broker that has left is reported."""
        new = sorted({*coordinators(layout, self._plan.coordinators), *self._known} - self._rounds.keys())
        for at, broker in enumerate(new):
            rounds = CoordinatorRounds(
                self._known.get(broker, Coordinator(broker)),
                self._token,
                self._plan.every_ms / 1000,
                _SPREAD_S * at / len(new),
                self._newest_layout,
                Probe(self._plan.settings, self._plan.topic, self._clocks.monotonic),
                self._save,
                self._clocks,
            )
            self._rounds[broker] = rounds
            rounds.start()

    def _newest_layout(self) -> Layout:
        assert self._layout is not None
        return self._layout

    def _forget(self, layout: Layout) -> None:
        """Forgets brokers that have coordinated nothing for FORGET_AFTER_MS. If the settings list the brokers to probe,
        forgets all other brokers at once."""
        now_ms, needed = self._clocks.now_ms(), set(coordinators(layout, self._plan.coordinators))
        unneeded = {*self._known, *self._rounds} - needed
        self._unneeded_since_ms = {one: self._unneeded_since_ms.get(one, now_ms) for one in unneeded}
        outdated = [
            broker
            for broker, since_ms in self._unneeded_since_ms.items()
            if self._plan.coordinators or now_ms - since_ms > FORGET_AFTER_MS
        ]
        for broker in outdated:
            if (rounds := self._rounds.pop(broker, None)) is not None:
                rounds.end()
                rounds.join(JOIN_S)
            self._known.pop(broker, None)
        if outdated:
            self._write(lambda connection: stored.forget_coordinators(connection, self._cluster_id, outdated))

    def _save(self, coordinator: Coordinator) -> bool:
        """Stores the coordinator. Returns False if the lease is lost. A failed write is not repeated, because the write
        after the next round includes the results of this round."""
        self._write(lambda connection: stored.save_coordinator(connection, self._cluster_id, coordinator))
        return not self._lost.is_set()

    def _note_alive(self, connection: Connection, *, is_running: bool = True) -> None:
        leaderless, trouble = self._status
        now_ms = self._clocks.now_ms()
        stored.note_alive(connection, self._cluster_id, now_ms, leaderless, trouble, is_running=is_running)

    def _write(self, write: Callable[[Connection], None]) -> bool:
        """Writes in one transaction under the lease. Returns whether the write succeeded."""
        try:
            with self._engine.begin() as connection:
                lease.check(connection, self._held)
                write(connection)
        except LeaseLost:
            self._lost.set()
            return False
        except StoreError as error:
            log.debug("canary: %s", error)
            return False
        return True

    def _end(self) -> None:
        """Ends the rounds. Unless the lease is lost, also deletes the records of the topic, and marks the canary as
        stopped in the store."""
        for each_round in self._rounds.values():
            each_round.end()
        give_up_s = self._clocks.monotonic() + JOIN_S
        for each_round in self._rounds.values():
            each_round.join(max(give_up_s - self._clocks.monotonic(), 0.0))
        if not self._lost.is_set():
            if self._layout is not None:
                with suppress(KafkaFailure):  # not permitted, or a broker is away: retention deletes them
                    self._watch.delete_records(self._layout)
            self._write(lambda connection: self._note_alive(connection, is_running=False))
        self._watch.close()

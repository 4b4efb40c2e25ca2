"""Runs the canary of a cluster on a new store, and reads what the canary stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine

from service.canary.canary import Canary
from service.canary.coordinator_rounds import Clocks
from service.canary.running import Plan
from service.clock import wall_clock_ms
from service.domain.canary.rounds import Coordinator
from service.kafka.cluster import cluster_id
from service.kafka.settings import ClientSettings
from service.store import canary, clusters
from service.store.engine import open_engine
from tests.helpers.brokers import connect
from tests.helpers.migrated import migrated
from tests.helpers.waiting import LIMIT_S, wait_until

TOPIC = "txnscope-canary-test"
NAMED_WITHIN_S = 15.0
"""Time (s) within which a failure has to be named."""


class Watched:
    """Reads what the canary of the cluster `number` has stored."""

    def __init__(self, engine: Engine, number: int) -> None:
        self.engine, self.number = engine, number

    def coordinators(self) -> dict[int, Coordinator]:
        with self.engine.begin() as connection:
            return {
                coordinator.broker: coordinator for coordinator in canary.read_coordinators(connection, self.number)
            }

    def canary(self) -> canary.Canary | None:
        with self.engine.begin() as connection:
            return canary.find_canary(connection, self.number)

    def trouble(self) -> str | None:
        found = self.canary()
        return None if found is None else found.trouble

    def wait(
        self, is_it: Callable[[dict[int, Coordinator]], bool], what: str, within_s: float = LIMIT_S
    ) -> dict[int, Coordinator]:
        return wait_until(self.coordinators, is_it, what, within_s)

    def wait_for_rounds(self, number: int, *brokers: int) -> dict[int, Coordinator]:
        """Waits until each of the brokers has finished `number` more rounds, and its newest round did not fail. Returns
        all coordinators, keyed by broker."""
        before = {broker: coordinator.rounds for broker, coordinator in self.coordinators().items()}
        return self.wait(
            lambda found: all(
                broker in found
                and found[broker].rounds >= before.get(broker, 0) + number
                and found[broker].failure is None
                for broker in brokers
            ),
            f"{number} successful rounds of {brokers}",
        )

    def failing(self) -> dict[int, str]:
        """Returns the errors of the coordinators that fail, keyed by broker."""
        return {
            broker: coordinator.failure.error
            for broker, coordinator in self.coordinators().items()
            if coordinator.failure is not None
        }


@contextmanager
def store_of(bootstrap: str, directory: Path) -> Iterator[Watched]:
    """Yields a new store in which the cluster has the name `lab`."""
    engine = migrated(open_engine(f"sqlite:///{directory / 'canary.db'}"))
    with connect(bootstrap) as client:
        number = clusters.bind(engine, "lab", cluster_id(client), wall_clock_ms())
    try:
        yield Watched(engine, number)
    finally:
        engine.dispose()


@contextmanager
def running_canary(
    watched: Watched, settings: ClientSettings, *, every_ms: int = 1_000, coordinators: tuple[int, ...] = ()
) -> Iterator[Canary]:
    plan = Plan(settings, TOPIC, every_ms, coordinators)
    one = Canary(watched.engine, plan, Clocks(wall_clock_ms, time.monotonic))
    one.start()
    try:
        yield one
    finally:
        one.stop()
        one.join(LIMIT_S)

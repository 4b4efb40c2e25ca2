"""Tests of the threads of the canary: each coordinator has rounds of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from service.canary.coordinator_rounds import Clocks, CoordinatorRounds
from service.domain.canary.rounds import Coordinator, Failure, Phase, Round
from service.domain.canary.targets import Layout, Replicated, Target
from tests.helpers.waiting import LIMIT_S, wait_until

WHOLE = Layout(
    frozenset({1, 2}),
    (Replicated(0, 1, 2, 2), Replicated(1, 2, 2, 2)),
    (Replicated(0, 1, 2, 2), Replicated(1, 2, 2, 2)),
    2,
)
WITHOUT_1 = Layout(frozenset({2}), (Replicated(0, 2, 2, 1), Replicated(1, 2, 2, 1)), (Replicated(1, 2, 2, 1),), 2)
HOUR_S = 3_600.0


class Instant:
    """Runs rounds that take no time. `failure`: the failure of each round. `held`: the event for which each round
    waits."""

    def __init__(self, failure: Failure | None = None, held: threading.Event | None = None) -> None:
        self.targets: list[Target] = []
        self.closed = threading.Event()
        self._failure, self._held = failure, held

    def round(self, target: Target, at_ms: int) -> Round:
        self.targets.append(target)
        if self._held is not None:
            self._held.wait(LIMIT_S)
        return Round(at_ms, None, 1_000, 1_000, self._failure)

    def close(self) -> None:
        self.closed.set()


class Running:
    """The rounds of one coordinator. A test may replace `layout`. `saved` has each stored state of the coordinator."""

    def __init__(self, broker: int, prober: Instant, every_s: float = HOUR_S) -> None:
        self.layout, self.saved = WHOLE, list[Coordinator]()
        clocks = Clocks(lambda: 1_000 + len(self.saved), time.monotonic)
        self.rounds = CoordinatorRounds(
            Coordinator(broker), "t", every_s, 0.0, lambda: self.layout, prober, self._save, clocks
        )

    def _save(self, coordinator: Coordinator) -> bool:
        self.saved.append(coordinator)
        return True

    def wait_for(self, number: int) -> Coordinator:
        return wait_until(lambda: self.saved, lambda saved: len(saved) >= number, f"{number} rounds")[number - 1]


@contextmanager
def started(*some: Running) -> Iterator[None]:
    for running in some:
        running.rounds.start()
    try:
        yield
    finally:
        for running in some:
            running.rounds.end()
        for running in some:
            running.rounds.join(LIMIT_S)


def test_a_coordinator_that_does_not_answer_delays_no_other_one() -> None:
    thawed = threading.Event()
    frozen, fine = Running(1, Instant(held=thawed), 0.0), Running(2, Instant(), 0.0)
    with started(frozen, fine):
        fine.wait_for(3)
        assert frozen.saved == []
        thawed.set()


def test_a_broker_that_leaves_the_cluster_is_named_before_its_next_round() -> None:
    prober = Instant()
    running = Running(1, prober)
    with started(running):
        assert running.wait_for(1).failure is None
        running.layout = WITHOUT_1
        running.rounds.look(WITHOUT_1)
        gone = running.wait_for(2)
    assert gone.failure is not None
    assert (gone.failure.phase, gone.failure.error) == (Phase.COORDINATOR, "BROKER_NOT_AVAILABLE")
    assert len(prober.targets) == 1


def test_a_layout_that_changes_nothing_begins_no_round() -> None:
    running = Running(2, Instant())
    with started(running):
        running.wait_for(1)
        running.rounds.look(WHOLE)
        running.layout = WITHOUT_1
        running.rounds.look(WITHOUT_1)  # both log partitions have equally few replicas in sync, so the target stays
    assert len(running.saved) == 1


def test_a_failure_is_stored_with_the_cause_that_the_layout_shows() -> None:
    running = Running(1, Instant(Failure(Phase.COMMIT, "REQUEST_TIMED_OUT", "no answer within 4 s")))
    running.layout = Layout(WHOLE.brokers, (Replicated(0, 1, 2, 1), WHOLE.log[1]), WHOLE.topic, 2)
    with started(running):
        failure = running.wait_for(1).failure
    assert failure is not None
    assert (failure.phase, failure.error) == (Phase.COMMIT, "NOT_ENOUGH_REPLICAS")


def test_the_end_closes_the_clients_and_waits_for_no_pause() -> None:
    prober = Instant()
    running = Running(1, prober)
    with started(running):
        running.wait_for(1)
    assert prober.closed.is_set()

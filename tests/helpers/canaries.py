"""Makes coordinators with the results of canary rounds. Also stores a canary with given coordinators."""

from __future__ import annotations

from collections.abc import Sequence

from service.domain.canary.rounds import Coordinator, Failure, Phase, Round
from service.store import canary
from tests.helpers.stores import NOW_MS, SeededCluster

NO_REPLICAS = Failure(
    Phase.COMMIT, "NOT_ENOUGH_REPLICAS", "partition 7 of __transaction_state has 1 of 3 replicas in sync, and needs 2"
)
GONE = Failure(Phase.COORDINATOR, "BROKER_NOT_AVAILABLE", "the broker is not among the cluster's live brokers")
EVERY_MS = 10_000


def coordinator(broker: int, *commit_ms: int, failure: Failure | None = None, at_ms: int = NOW_MS) -> Coordinator:
    """Returns a coordinator with one successful round for each of `commit_ms`. If `failure` is given, a failed round
    follows. All rounds are at `at_ms`."""
    one = Coordinator(broker, log_partition=7, transactional_id=f"txnscope-canary-c0ffee-7-{broker}")
    for ms in commit_ms:
        one = one.after(Round(at_ms, 3_000, ms * 1_000, 1_500, None))
    return one if failure is None else one.after(Round(at_ms, None, None, None, failure))


def store_canary(
    cluster: SeededCluster,
    some: Sequence[Coordinator],
    *,
    leaderless: int = 0,
    trouble: str | None = None,
    at_ms: int = NOW_MS,
    is_running: bool = True,
) -> None:
    """Stores a canary with these coordinators. The canary last reported at `at_ms`."""
    with cluster.engine.begin() as connection:
        canary.begin(connection, cluster.id, "txnscope-canary", EVERY_MS, at_ms)
        for one in some:
            canary.save_coordinator(connection, cluster.id, one)
        canary.note_alive(connection, cluster.id, at_ms, leaderless, trouble, is_running=is_running)

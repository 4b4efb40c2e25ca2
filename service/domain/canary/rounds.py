"""The result of one round (one transaction of the canary), and the results of all rounds of a coordinator so far."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

BOUNDS_US: Final = (
    *(2_000, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000),
    *(500_000, 1_000_000, 2_000_000, 4_000_000),
)
"""Upper bounds (µs, inclusive) of the buckets of a histogram of durations. Longer durations fall into one more
bucket."""

RECENT: Final = 60
"""Number of newest successful rounds of a coordinator from which percentiles are computed. At one round every 10 s,
they cover 10 minutes."""

BROKER_NOT_AVAILABLE: Final = "BROKER_NOT_AVAILABLE"
NOT_ENOUGH_REPLICAS: Final = "NOT_ENOUGH_REPLICAS"
REQUEST_TIMED_OUT: Final = "REQUEST_TIMED_OUT"

ALWAYS_COUNTED: Final = (BROKER_NOT_AVAILABLE, NOT_ENOUGH_REPLICAS, REQUEST_TIMED_OUT)
"""Errors whose counters exist before the first such error. Counters of other errors appear with their first error."""


class Phase(StrEnum):
    """The steps of a round, in order."""

    COORDINATOR = "coordinator"
    """The check that the broker is among the cluster's live brokers."""
    INIT = "init"
    """InitProducerId, once for each producer."""
    PRODUCE = "produce"
    """From the start of the transaction until the record is acknowledged. Includes AddPartitionsToTxn."""
    COMMIT = "commit"
    """From EndTxn until the commit is acknowledged."""
    VISIBLE = "visible"
    """From the acknowledged commit until a read_committed consumer has the record."""


class Failure(NamedTuple):
    """The reason why a round failed. `error`: Kafka's name of the error."""

    phase: Phase
    error: str
    detail: str


class Round(NamedTuple):
    """One round. Durations are in microseconds; a duration is None if its steps were not finished. `init_us`: the
    duration of InitProducerId; None also if the producer existed already. `commit_us`: from the start of the
    transaction to the acknowledged commit. `visible_us`: from the acknowledged commit until a consumer has the
    record."""

    at_ms: int
    init_us: int | None
    commit_us: int | None
    visible_us: int | None
    failure: Failure | None


class Latencies(NamedTuple):
    """A histogram of durations. `counts`: the number of durations in each bucket; the buckets end at BOUNDS_US, and the
    last bucket has no upper bound. `sum_us`: the sum of all durations."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS_US) + 1)
    sum_us: int = 0

    def with_one(self, duration_us: int) -> Latencies:
        at = bisect_left(BOUNDS_US, duration_us)
        counts = tuple(count + (index == at) for index, count in enumerate(self.counts))
        return Latencies(counts, self.sum_us + duration_us)


NO_LATENCIES: Final = Latencies()


class Recent(NamedTuple):
    """The durations of one successful round."""

    commit_us: int
    visible_us: int


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The results of all rounds of one coordinator so far. `rounds`: the number of rounds; `failures`: a mapping from
    Kafka's name of an error to the number of rounds that failed with it. `last_at_ms`: the start of the newest round,
    or the newest time at which the broker was found idle. `failing_since_ms` and `failure`: None while rounds succeed,
    while the broker is idle, and before the first round. `idle_since_ms`: the time since which the broker is idle (it
    is live and coordinates nothing); None while it is not idle. `recent`: the newest successful rounds, oldest
    first."""

    broker: int
    log_partition: int | None = None
    transactional_id: str | None = None
    rounds: int = 0
    last_at_ms: int | None = None
    init_us: int | None = None
    failing_since_ms: int | None = None
    failure: Failure | None = None
    idle_since_ms: int | None = None
    failures: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    commits: Latencies = NO_LATENCIES
    visibles: Latencies = NO_LATENCIES
    recent: tuple[Recent, ...] = ()

    def after(self, one: Round) -> Coordinator:
        """Returns the coordinator after one more round."""
        failure, failures, recent = one.failure, dict(self.failures), self.recent
        if failure is not None:
            failures[failure.error] = failures.get(failure.error, 0) + 1
        elif one.commit_us is not None and one.visible_us is not None:
            recent = (*recent, Recent(one.commit_us, one.visible_us))[-RECENT:]
        return replace(
            self,
            rounds=self.rounds + 1,
            last_at_ms=one.at_ms,
            init_us=self.init_us if one.init_us is None else one.init_us,
            failing_since_ms=None if failure is None else self.failing_since_ms or one.at_ms,
            failure=failure,
            idle_since_ms=None,
            failures=MappingProxyType(failures),
            commits=self.commits if one.commit_us is None else self.commits.with_one(one.commit_us),
            visibles=self.visibles if one.visible_us is None else self.visibles.with_one(one.visible_us),
            recent=recent,
        )

    def idle(self, now_ms: int) -> Coordinator:
        """Returns the coordinator after an observation at `now_ms` that its broker is live and coordinates nothing."""
        since_ms = self.idle_since_ms or now_ms
        return replace(self, last_at_ms=now_ms, failing_since_ms=None, failure=None, idle_since_ms=since_ms)


def percentile(durations_us: Sequence[int], percent: int) -> int | None:
    """Returns a percentile of the durations: the smallest duration such that at least `percent` % of all durations are
    not longer. Returns None without durations."""
    if not durations_us:
        return None
    ordered = sorted(durations_us)
    return ordered[max(-(-len(ordered) * percent // 100) - 1, 0)]

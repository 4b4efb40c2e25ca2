"""The body of the canary: whether transactions can run now, at each coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from service.api.http.fields import text_of_time
from service.api.schemas.shape import OneOf, Shape, Time
from service.domain.canary.rounds import Phase, percentile
from service.views.cluster.canary import CanaryHealth, CoordinatorHealth, Health


@dataclass(slots=True, kw_only=True)
class Speed(Shape):
    """Durations (ms) of the newest successful rounds, at most 60 of each coordinator; null if no round succeeded."""

    p50: float | None
    p99: float | None

    @staticmethod
    def of(durations_us: Sequence[int]) -> Speed:
        return Speed(p50=_ms(percentile(durations_us, 50)), p99=_ms(percentile(durations_us, 99)))


def _ms(duration_us: int | None) -> float | None:
    return None if duration_us is None else round(duration_us / 1000, 1)


@dataclass(slots=True, kw_only=True)
class CanaryCoordinator(Shape):
    """The canary's rounds at one coordinator."""

    broker: int
    health: Annotated[
        Health,
        OneOf(*Health),
        Field(
            description="`idle`: the broker is the coordinator of no partition. `unknown`: the newest round is too old."
        ),
    ]
    partition: Annotated[
        int | None,
        Field(description="The partition of `__transaction_state` whose leader, the coordinator, is probed."),
    ]
    transactional_id: str | None
    rounds: int
    last_round_at: Time | None
    init_ms: Annotated[float | None, Field(description="Duration (ms) of the newest InitProducerId.")]
    commit_ms: Annotated[
        Speed, Field(description="Time from the start of a transaction until its commit is acknowledged.")
    ]
    visible_ms: Annotated[
        Speed, Field(description="Time from the acknowledged commit until a read_committed consumer has the record.")
    ]
    failures: Annotated[
        dict[str, int],
        Field(description="A mapping from Kafka's name of an error to the number of rounds that failed with it."),
    ]
    failing_since: Annotated[
        Time | None,
        Field(
            description="Start of the first failed round since the last success; null if the newest round succeeded."
        ),
    ]
    phase: Annotated[Phase | None, OneOf(*Phase), Field(description="The step at which the newest round failed.")]
    error: str | None
    detail: str | None

    @staticmethod
    def of(health: CoordinatorHealth) -> CanaryCoordinator:
        rounds = health.rounds
        return CanaryCoordinator(
            broker=health.broker,
            health=health.health,
            partition=rounds.log_partition,
            transactional_id=rounds.transactional_id,
            rounds=rounds.rounds,
            last_round_at=text_of_time(rounds.last_at_ms),
            init_ms=_ms(rounds.init_us),
            commit_ms=Speed.of(health.commit_us),
            visible_ms=Speed.of(health.visible_us),
            failures=dict(rounds.failures),
            failing_since=text_of_time(rounds.failing_since_ms),
            phase=None if rounds.failure is None else rounds.failure.phase,
            error=None if rounds.failure is None else rounds.failure.error,
            detail=None if rounds.failure is None else rounds.failure.detail,
        )


@dataclass(slots=True, kw_only=True)
class Canary(Shape):
    """The canary of a cluster, whose own transactions show whether transactions can run now."""

    cluster: str
    is_running: Annotated[bool, Field(description="False if no canary has run yet, or if the canary has stopped.")]
    summary: Annotated[str, Field(description="A sentence: whether transactions can run now.")]
    topic: str | None
    every_ms: int | None
    can_run: Annotated[int, Field(description="Number of coordinators whose `health` is `runs`.")]
    probed: Annotated[int, Field(description="Number of coordinators whose `health` is not `idle`.")]
    leaderless: Annotated[int, Field(description="Number of partitions of `__transaction_state` without a leader.")]
    commit_ms: Speed
    trouble: Annotated[
        str | None,
        Field(description="The reason why the canary cannot probe, or cannot read metadata; null if there is none."),
    ]
    coordinators: list[CanaryCoordinator]
    as_of: Time | None

    @staticmethod
    def of(cluster: str, found: CanaryHealth | None) -> Canary:
        if found is None:
            return Canary(
                cluster=cluster,
                is_running=False,
                summary="No canary has run on this cluster yet; [canary] in the settings switches it on.",
                topic=None,
                every_ms=None,
                can_run=0,
                probed=0,
                leaderless=0,
                commit_ms=Speed.of([]),
                trouble=None,
                coordinators=[],
                as_of=None,
            )
        return Canary(
            cluster=cluster,
            is_running=found.is_alive,
            summary=" ".join([found.title, *found.lines]),
            topic=found.canary.topic,
            every_ms=found.canary.every_ms,
            can_run=len(found.running),
            probed=len(found.probed),
            leaderless=found.canary.leaderless,
            commit_ms=Speed.of([us for health in found.running for us in health.commit_us]),
            trouble=found.canary.trouble,
            coordinators=[CanaryCoordinator.of(coordinator) for coordinator in found.coordinators],
            as_of=text_of_time(found.canary.as_of_ms),
        )

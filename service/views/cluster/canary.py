"""The results of the canary, in words: which coordinators can run transactions at present, how fast they are, and what
fails."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from sqlalchemy import Connection

from service.domain.canary.rounds import Coordinator, Phase, percentile
from service.store.canary import Canary, find_canary, read_coordinators
from service.views.words import clock, fine, plural

ALIVE_WITHIN_MS: Final = 30_000
"""A canary that has not written to the store for longer than this time (ms) counts as not running."""

ROUND_LATE_MS: Final = 15_000
"""Time (ms) by which a canary's round may be late. If the next round with a coordinator is later than this, the state
of the coordinator is not known."""


class Health(StrEnum):
    """The state of a coordinator according to the canary."""

    RUNS = "runs"
    """The canary's newest transaction with this coordinator was committed, and its record became visible."""
    FAILS = "fails"
    IDLE = "idle"
    """The coordinator's broker is live, and coordinates no transactional.id."""
    UNKNOWN = "unknown"
    """The canary is not running, or it has finished no recent round with this coordinator."""


class CoordinatorHealth(NamedTuple):
    """The canary's rounds with one coordinator, and the coordinator's state according to these rounds."""

    rounds: Coordinator
    health: Health

    @property
    def broker(self) -> int:
        return self.rounds.broker

    @property
    def commit_us(self) -> Sequence[int]:
        return [one.commit_us for one in self.rounds.recent]

    @property
    def visible_us(self) -> Sequence[int]:
        return [one.visible_us for one in self.rounds.recent]


_FAILS: Final = {
    Phase.COORDINATOR: "cannot be a coordinator",
    Phase.INIT: "does not initialize the canary's producer",
    Phase.PRODUCE: "does not accept the canary's record",
    Phase.COMMIT: "does not commit the canary's transaction",
    Phase.VISIBLE: "commits, but the canary does not see its record",
}


class CanaryHealth(NamedTuple):
    """The canary of a cluster, and the health of each coordinator."""

    canary: Canary
    coordinators: tuple[CoordinatorHealth, ...]
    now_ms: int

    @property
    def is_alive(self) -> bool:
        return self.canary.is_running and self.now_ms - self.canary.as_of_ms <= ALIVE_WITHIN_MS

    @property
    def probed(self) -> tuple[CoordinatorHealth, ...]:
        """The coordinators whose health is not IDLE. An idle coordinator cannot be probed, because it leads no
        partition of the transaction log."""
        return tuple(coordinator for coordinator in self.coordinators if coordinator.health != Health.IDLE)

    @property
    def running(self) -> tuple[CoordinatorHealth, ...]:
        return tuple(coordinator for coordinator in self.coordinators if coordinator.health == Health.RUNS)

    @property
    def failing(self) -> tuple[CoordinatorHealth, ...]:
        return tuple(coordinator for coordinator in self.coordinators if coordinator.health == Health.FAILS)

    @property
    def commit_p99_us(self) -> int | None:
        """The 99th percentile of the commit times (µs) in the newest rounds with the running coordinators; None without
        such a round."""
        return percentile([us for health in self.running for us in health.commit_us], 99)

    @property
    def tone(self) -> str:
        """The tone of the title: ok, critical, or unknown."""
        if self.is_alive and (self.failing or self.canary.leaderless):
            return "critical"
        return "ok" if self.running and len(self.running) == len(self.probed) else "unknown"

    @property
    def title(self) -> str:
        """Returns a sentence about whether transactions can run at present."""
        if not self.is_alive:
            since = clock(self.canary.as_of_ms, self.now_ms)
            return f"It is not known whether transactions can run: the canary has reported nothing since {since}."
        if not self.probed or not (self.running or self.failing):
            why = self.canary.trouble or "the canary has not finished a round yet"
            return f"It is not known whether transactions can run: {why}."
        of = f"{len(self.running)} of {plural(len(self.probed), 'coordinator')}"
        p99_us = self.commit_p99_us
        speed = "" if p99_us is None else f", commit p99 {fine(round(p99_us / 1000))}"
        if not self.failing:
            return f"The canary's transactions run at {of}{speed}."
        if not self.running:
            failing = f"{len(self.failing)} of {plural(len(self.probed), 'coordinator')}"
            return f"The canary's transactions fail at {failing}."
        return f"The canary's transactions run at only {of}{speed}."

    @property
    def lines(self) -> list[str]:
        """Returns sentences about failures, partitions without a leader, coordinators in an unknown state, and the
        canary's own trouble. Returns an empty list if the canary is not alive."""
        if not self.is_alive:
            return []
        found = [self._line(health) for health in self.failing]
        if leaderless := self.canary.leaderless:
            found.append(
                f"{plural(leaderless, 'partition')} of __transaction_state {'has' if leaderless == 1 else 'have'} no"
                f" leader: no transaction of {'its' if leaderless == 1 else 'their'} ids can run."
            )
        late = [str(coordinator.broker) for coordinator in self.coordinators if coordinator.health == Health.UNKNOWN]
        if late and (self.running or self.failing):
            brokers = ", ".join(late)
            found.append(
                f"The state of {'broker' if len(late) == 1 else 'brokers'} {brokers} is not known: the canary has"
                " finished no recent round there."
            )
        if self.canary.trouble is not None and self.probed:
            found.append(f"The canary cannot follow changes of the cluster: {self.canary.trouble}.")
        return found

    def _line(self, health: CoordinatorHealth) -> str:
        failure, since_ms = health.rounds.failure, health.rounds.failing_since_ms
        assert failure is not None
        assert since_ms is not None
        detail = f" ({failure.detail})" if failure.detail else ""
        since = clock(since_ms, self.now_ms)
        return f"Broker {health.broker} {_FAILS[failure.phase]} (failing since {since}): {failure.error}{detail}."


def read_health(connection: Connection, cluster_id: int, now_ms: int) -> CanaryHealth | None:
    """Returns the canary of the cluster; None if there never was one."""
    canary = find_canary(connection, cluster_id)
    if canary is None:
        return None
    known = read_coordinators(connection, cluster_id)
    is_alive = canary.is_running and now_ms - canary.as_of_ms <= ALIVE_WITHIN_MS
    judged = tuple(
        CoordinatorHealth(coordinator, _health(coordinator, canary, now_ms, is_alive=is_alive)) for coordinator in known
    )
    return CanaryHealth(canary, judged, now_ms)


def _health(coordinator: Coordinator, canary: Canary, now_ms: int, *, is_alive: bool) -> Health:
    is_late = coordinator.last_at_ms is None or now_ms - coordinator.last_at_ms > canary.every_ms + ROUND_LATE_MS
    if not is_alive or is_late:
        return Health.UNKNOWN
    if coordinator.failure is not None:
        return Health.FAILS
    return Health.IDLE if coordinator.idle_since_ms is not None else Health.RUNS

"""Tracks disturbances: broker failures and moves of coordinators. After a disturbance, clients may still be waiting for
the unresponsive broker, or for the former coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection

from service.store.queries import partitions

NEVER_MS: Final = 0


class Disturbances:
    """The disturbances that this process has seen. `broker_failure_ms`: time of the last broker failure before this
    process; NEVER_MS if none is known."""

    def __init__(self, broker_failure_ms: int = NEVER_MS) -> None:
        self._led: dict[int, tuple[tuple[int, int], int]] = {}  # by log partition: leader, and since when
        self.broker_failure_ms = broker_failure_ms
        """Time (ms) of the last known failure of any broker to answer; NEVER_MS if none is known."""

    def note_leaders(self, leaders: Mapping[int, tuple[int, int]], now_ms: int) -> None:
        """Notes the leader (broker, epoch) of each partition of the transaction log. If a leader has changed, notes
        `now_ms` as the time at which the coordinator moved."""
        for p, leader in leaders.items():
            known, _ = self._led.setdefault(p, (leader, NEVER_MS))
            if known != leader:
                self._led[p] = leader, now_ms

    def note_broker_failure(self, at_ms: int) -> None:
        """Notes that some broker did not answer at `at_ms`. Any client may be waiting for that broker, whichever
        coordinator the client uses."""
        self.broker_failure_ms = max(self.broker_failure_ms, at_ms)

    def newest_ms(self, log_partition: int) -> int:
        """Returns the time (ms) of the last disturbance after which a client of the coordinator of `log_partition` may
        be waiting: a broker failure, or a move of that coordinator. Returns NEVER_MS if none is known."""
        _, led_since_ms = self._led.get(log_partition, (None, NEVER_MS))
        return max(led_since_ms, self.broker_failure_ms)


def disturbances_at_start(connection: Connection, cluster_id: int, now_ms: int) -> Disturbances:
    """Returns the disturbances to assume at the start of this process.

    After a takeover we do not know which brokers were unresponsive before: the previous process may have ended together
    with a broker on the same node. So the start time counts as the last broker failure. On a store without any sample
    of partitions, no failure is assumed.
    """
    looked_ms = partitions.observed_at_ms(connection, cluster_id)
    return Disturbances() if looked_ms is None else Disturbances(now_ms)

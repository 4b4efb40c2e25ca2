"""Whether clients may be waiting for a broker that is frozen, or for a coordinator that is one no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection

from service.store.queries import judged_partitions

NEVER_MS: Final = 0


class Unrest:
    """As far back as this process has seen; `silent_ms`: what is known from before."""

    def __init__(self, silent_ms: int = NEVER_MS) -> None:
        self._led: dict[int, tuple[tuple[int, int], int]] = {}  # by log partition: leader, and since when
        self.silent_ms = silent_ms
        """When some broker last did not answer, as is known."""

    def see_leaders(self, leaders: Mapping[int, tuple[int, int]], now_ms: int) -> None:
        """(broker, epoch) by partition of the coordinators' log."""
        for p, leader in leaders.items():
            known, _ = self._led.setdefault(p, (leader, NEVER_MS))
            if known != leader:
                self._led[p] = leader, now_ms

    def see_silence(self, at_ms: int) -> None:
        """Some broker did not answer then: whatever is asked of any broker may wait for that one."""
        self.silent_ms = max(self.silent_ms, at_ms)

    def newest_ms(self, log_partition: int) -> int:
        """When a client of that coordinator may last have begun to wait."""
        _, led_since_ms = self._led.get(log_partition, (None, NEVER_MS))
        return max(led_since_ms, self.silent_ms)


def unrest_at_start(connection: Connection, cluster_id: int, now_ms: int) -> Unrest:
    """What took the place of another process may have ended that one: a node with a broker on it. Until now counts as
    silence then. Where nobody has looked before, nothing suggests any."""
    looked_ms = judged_partitions.looked_at_ms(connection, cluster_id)
    return Unrest() if looked_ms is None else Unrest(now_ms)

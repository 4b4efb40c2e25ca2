"""Waits for the lease of a cluster, on no clock but the seconds that pass in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlalchemy import Engine

from service.processes.identity import has_ended
from service.processes.working_time import WorkingTime
from service.store import lease
from service.store.lease import EXPIRES_AFTER_MS, Lease, Renewal

LOOK_EVERY_S: Final = 0.5


class Standby:
    """Wants the lease of one cluster for `owner`, an identity (`service.processes.identity`).

    Takes it at once if nobody holds it, or if its holder ran on this machine and has ended. Else takes it after
    EXPIRES_AFTER_MS in which no look found a new renewal. Between two looks at most one second counts, and none before
    a look that fails: while this process is stopped or the store is away, the holder cannot be seen renewing.
    """

    def __init__(
        self, engine: Engine, cluster_id: int, owner: str, passed_s: Callable[[], float] | None = None
    ) -> None:
        """`passed_s`: returns the seconds since its last call, at most one."""
        self._engine, self._cluster_id, self._owner = engine, cluster_id, owner
        self._passed_s = passed_s or WorkingTime(list).skip
        self._seen: Renewal | None = None
        self._unchanged_s = 0.0

    def look(self) -> None:
        """Checks whether the holder has renewed the lease. To be called every LOOK_EVERY_S. Raises StoreUnavailable."""
        passed_s = self._passed_s()
        seen = lease.newest_renewal(self._engine, self._cluster_id)
        self._unchanged_s = self._unchanged_s + passed_s if seen == self._seen else 0.0
        self._seen = seen

    def acquire(self, now_ms: int) -> Lease | None:
        """Looks, and takes the lease if it may. Raises StoreUnavailable."""
        self.look()
        if self._is_held_by_another():
            return None
        return lease.acquire(self._engine, self._cluster_id, self._owner, now_ms, expired=self._seen)

    def _is_held_by_another(self) -> bool:
        if self._seen is None or self._seen.owner == self._owner:
            return False
        return self._unchanged_s < EXPIRES_AFTER_MS / 1000 and not has_ended(self._seen.owner)

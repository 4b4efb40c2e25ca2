"""Waits for a lease until its holder has ended, or no longer renews the lease."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlalchemy import Engine

from service.processes.identity import has_ended
from service.processes.waiting import WorkingTime
from service.store import lease
from service.store.lease import EXPIRES_AFTER_MS, Lease, Renewal

LOOK_EVERY_S: Final = 0.5


class Standby:
    """Waits for a lease on behalf of `owner`, an identity (`service.processes.identity`).

    Takes the lease at once if nobody holds it, or if its holder ran on this machine and has ended. Otherwise takes it
    after EXPIRES_AFTER_MS without a renewal. Each successful call of `look` counts the time since the previous call
    towards EXPIRES_AFTER_MS, but at most one second: while this process is stopped or the store is unavailable,
    renewals are not seen.
    """

    def __init__(
        self, engine: Engine, cluster_id: int, owner: str, passed_s: Callable[[], float] | None = None
    ) -> None:
        """`passed_s` returns the seconds since its last call, but never more than 1.0. Default: `WorkingTime.skip`."""
        self._engine, self._cluster_id, self._owner = engine, cluster_id, owner
        self._passed_s = passed_s or WorkingTime(list).skip
        self._seen: Renewal | None = None
        self._unchanged_s = 0.0

    def look(self) -> None:
        """Checks whether the holder has renewed the lease. Call it every LOOK_EVERY_S. Raises StoreUnavailable."""
        passed_s = self._passed_s()
        seen = lease.newest_renewal(self._engine, self._cluster_id)
        self._unchanged_s = self._unchanged_s + passed_s if seen == self._seen else 0.0
        self._seen = seen

    def acquire(self, now_ms: int) -> Lease | None:
        """Calls `look`, then takes the lease if it is free, this owner's, or no longer renewed, or if its holder has
        ended; else returns None. Raises StoreUnavailable, and the errors of `lease.acquire`."""
        self.look()
        if self._is_held_by_another():
            return None
        return lease.acquire(self._engine, self._cluster_id, self._owner, now_ms, expired=self._seen)

    def _is_held_by_another(self) -> bool:
        if self._seen is None or self._seen.owner == self._owner:
            return False
        return self._unchanged_s < EXPIRES_AFTER_MS / 1000 and not has_ended(self._seen.owner)

"""Runs several jobs at once under one lease: a failed job begins again alone, and the others continue. `Standby` waits
for the lease."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from sqlalchemy import Engine

from service.processes.identity import has_ended
from service.processes.waiting import Backoff, WorkingTime
from service.store import lease
from service.store.errors import LeaseLost, StoreLost
from service.store.lease import EXPIRES_AFTER_MS, Lease, Renewal
from spark_jobs.runtime.cluster import SessionEnded
from spark_jobs.runtime.error_summary import error_summary, heals
from spark_jobs.runtime.liveness import SOURCE_S, SOURCE_START_S, Liveness, Part
from spark_jobs.runtime.queries import StillStoring

log = logging.getLogger("txnscope.ingest")

RENEW_EVERY_S: Final = 1.0
STEADY_AFTER_S: Final = 60
FIRST_PAUSE_S: Final = 1.0
MAX_PAUSE_S: Final = 30.0
MOST_FAILURES: Final = 8
"""Failures of one job in a row, after which a new query in the same session is not expected to help."""


class TooManyFailures(Exception):
    """A new query in this session is not expected to help: the process has to start again."""


class Job(Protocol):
    """A job under the lease. `run` reports its steps to `part`, returns once `ending` is set, and raises any failure
    that ends the job before."""

    @property
    def name(self) -> str: ...

    def run(self, lease: Lease, ending: threading.Event, part: Part) -> None: ...


def run_jobs(
    jobs: Sequence[Job], lease: Lease, liveness: Liveness, renew: Callable[[], None], stopping: threading.Event
) -> BaseException | None:
    """Runs `jobs` until `stopping` is set (returns None), or until no job may write under this lease any more (returns
    the cause). Waits for the end of all jobs.

    `renew` keeps the lease, and is called when every part that writes under it has made a step; it raises LeaseLost.
    Raises TooManyFailures, and StoreLost.
    """
    shared_end = _SharedEnd()
    threads = [
        threading.Thread(target=_keep_running, args=(job, lease, liveness, shared_end), name=job.name) for job in jobs
    ]
    for thread in threads:
        thread.start()
    try:
        while not shared_end.ending.is_set() and not stopping.wait(RENEW_EVERY_S):
            if liveness.earns_renewal():
                renew()
    except LeaseLost as e:
        shared_end.end(e)
    finally:
        shared_end.ending.set()
        for thread in threads:
            thread.join()
    if isinstance(shared_end.failure, TooManyFailures | StoreLost):
        raise shared_end.failure
    return shared_end.failure


class _SharedEnd:
    """The common end of all jobs of a lease: set with its cause when one of them may not write any more."""

    def __init__(self) -> None:
        self.ending = threading.Event()
        self.failure: BaseException | None = None

    def end(self, failure: BaseException) -> None:
        self.failure = self.failure or failure
        self.ending.set()


def _keep_running(job: Job, lease: Lease, liveness: Liveness, shared_end: _SharedEnd) -> None:
    backoff, failures = Backoff(FIRST_PAUSE_S, MAX_PAUSE_S), 0
    with liveness.part(job.name, SOURCE_S, start_s=SOURCE_START_S, holds_lease=True) as part:
        while not shared_end.ending.is_set():
            began = time.monotonic()
            part.note_start()
            try:
                job.run(lease, shared_end.ending, part)
            except (LeaseLost, StoreLost, StillStoring) as e:
                shared_end.end(e)
            except SessionEnded as e:
                shared_end.end(TooManyFailures(str(e)))
            except Exception as e:
                if time.monotonic() - began > STEADY_AFTER_S:
                    failures = 0
                    backoff.reset()
                failures += not heals(e)
                if failures >= MOST_FAILURES:
                    shared_end.end(
                        TooManyFailures(f"{job.name}: reading stopped {failures} times in a row: {error_summary(e)}")
                    )
                    return
                pause_s = backoff.next_s()
                log.warning(
                    "%s: reading stopped; in %.0f s it continues from the stored position: %s",
                    job.name,
                    pause_s,
                    error_summary(e),
                )
                part.note_start()
                shared_end.ending.wait(pause_s)


LOOK_EVERY_S: Final = 0.5


class Standby:
    """Waits for the lease of one cluster on behalf of `owner`, an identity (`service.processes.identity`).

    Takes the lease at once if nobody holds it, or if its holder ran on this machine and has ended. Otherwise takes it
    after EXPIRES_AFTER_MS without a new renewal. The time between two calls of `look` counts as at most one second, and
    not at all before a failed call, because this process sees no renewals while it is stopped or the store is
    unavailable.
    """

    def __init__(
        self, engine: Engine, cluster_id: int, owner: str, passed_s: Callable[[], float] | None = None
    ) -> None:
        """`passed_s` returns the seconds since its last call, but never more than 1.0."""
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
        """Calls `look`, then takes the lease if that is allowed; else returns None. Raises StoreUnavailable."""
        self.look()
        if self._is_held_by_another():
            return None
        return lease.acquire(self._engine, self._cluster_id, self._owner, now_ms, expired=self._seen)

    def _is_held_by_another(self) -> bool:
        if self._seen is None or self._seen.owner == self._owner:
            return False
        return self._unchanged_s < EXPIRES_AFTER_MS / 1000 and not has_ended(self._seen.owner)

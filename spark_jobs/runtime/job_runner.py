"""Runs several jobs at once under one lease. If a job fails, only that job begins again; the others continue."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from service.processes.waiting import Backoff
from service.store.errors import LeaseLost, StoreLost
from service.store.lease import Lease
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
"""Number of consecutive failures of one job after which a new query in the same session is not expected to help.
Failures of Kafka and an unavailable store do not count."""


class TooManyFailures(Exception):
    """A new query in this session is not expected to help: the process has to start again."""


class Job(Protocol):
    """A job under the lease. `run` reports progress to `part`, and returns once `ending` is set. `run` raises any
    failure that ends the job earlier."""

    @property
    def name(self) -> str: ...

    def run(self, lease: Lease, ending: threading.Event, part: Part) -> None: ...


def run_jobs(
    jobs: Sequence[Job], lease: Lease, liveness: Liveness, renew: Callable[[], None], stopping: threading.Event
) -> BaseException | None:
    """Runs `jobs` until `stopping` is set, then returns None. If the lease is lost, or if some job fails and cannot
    begin again, stops earlier and returns the cause. The causes TooManyFailures and StoreLost are raised, not returned.
    In all cases, first waits until all jobs have ended.

    `renew` renews the lease, or raises LeaseLost. `renew` is called, at most every RENEW_EVERY_S, when
    `Liveness.earns_renewal` returns True.
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
    """The signal that ends all jobs of a lease. One job that cannot continue sets the signal. `failure`: the cause;
    None if the process is to stop."""

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
                    "%s: reading stopped, and continues from the stored position in %.0f s: %s",
                    job.name,
                    pause_s,
                    error_summary(e),
                )
                part.note_start()
                shared_end.ending.wait(pause_s)

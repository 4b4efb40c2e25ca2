"""Runs jobs beside one another under one lease: one that fails begins again alone, and the others go on."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from service.store.errors import LeaseLost
from service.store.lease import Lease
from spark_jobs.queries import StillStoring
from spark_jobs.reasons import reason

log = logging.getLogger("txnscope.ingest")

RENEW_EVERY_S: Final = 1.0
STEADY_AFTER_S: Final = 60
MAX_PAUSE_S: Final = 30.0


class Job(Protocol):
    """`run` returns once `ending` is set, and raises whatever ends it before."""

    @property
    def name(self) -> str: ...

    def run(self, lease: Lease, ending: threading.Event) -> None: ...


def run_jobs(
    jobs: Sequence[Job], lease: Lease, renew: Callable[[], None], stopping: threading.Event
) -> BaseException | None:
    """Until `stopping` (None), or until no job may write under this lease any more: why. All jobs have ended then.

    `renew` keeps the lease while nothing is written, as during a long read; raises LeaseLost.
    """
    round_ = _Round()
    threads = [threading.Thread(target=_keep, args=(job, lease, round_), name=job.name) for job in jobs]
    for thread in threads:
        thread.start()
    try:
        while not round_.ending.is_set() and not stopping.wait(RENEW_EVERY_S):
            renew()
    except LeaseLost as e:
        round_.end(e)
    finally:
        round_.ending.set()
        for thread in threads:
            thread.join()
    return round_.why


class _Round:
    def __init__(self) -> None:
        self.ending = threading.Event()
        self.why: BaseException | None = None

    def end(self, why: BaseException) -> None:
        self.why = self.why or why
        self.ending.set()


def _keep(job: Job, lease: Lease, round_: _Round) -> None:
    pause_s = 1.0
    while not round_.ending.is_set():
        began = time.monotonic()
        try:
            job.run(lease, round_.ending)
        except (LeaseLost, StillStoring) as e:
            round_.end(e)
        except Exception as e:
            if time.monotonic() - began > STEADY_AFTER_S:
                pause_s = 1.0
            log.warning(
                "%s: reading stopped, beginning again at what the store has in %.0f s: %s", job.name, pause_s, reason(e)
            )
            round_.ending.wait(pause_s)
            pause_s = min(pause_s * 2, MAX_PAUSE_S)

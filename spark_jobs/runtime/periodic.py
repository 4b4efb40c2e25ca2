"""Repeats background work in a thread of its own, until the block ends or the lease is lost."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from service.clock import wall_clock_ms
from service.kafka.errors import KafkaFailure
from service.processes.waiting import Backoff, heard_by
from service.store.errors import LeaseLost, StoreUnavailable
from spark_jobs.runtime.error_summary import error_summary
from spark_jobs.runtime.liveness import BACKGROUND_S, Liveness, Part

log = logging.getLogger("txnscope.background")

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0
_END_S: Final = 10.0


@contextmanager
def repeated(
    name: str,
    work: Callable[[int], float],
    liveness: Liveness,
    *,
    limit_s: float = BACKGROUND_S,
    holds_lease: bool = False,
    wake: threading.Event | None = None,
) -> Iterator[None]:
    """Calls `work` in a thread until the block ends. `work` gets the time in ms and returns the seconds to its next
    call.

    When another thread sets `wake`, the next call comes at once, unless the previous call failed.

    The thread is a part of `liveness`; `Liveness.part` explains `limit_s` and `holds_lease`. A failure of `work` is
    logged once, and `work` is called again after a pause. After a failure of Kafka, or if the store is unavailable, the
    pause counts as progress. After any other failure the pause does not count: a failure that lasts longer than
    `limit_s` ends the process, which is then started again. LeaseLost ends the thread.
    """
    stopping, wake = threading.Event(), wake or threading.Event()
    with liveness.part(name, limit_s, holds_lease=holds_lease) as part:
        thread = threading.Thread(target=_repeat, args=(name, work, part, stopping, wake), name=name, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            wake.set()
            thread.join(timeout=_END_S)


def _repeat(
    name: str, work: Callable[[int], float], part: Part, stopping: threading.Event, wake: threading.Event
) -> None:
    pause_s, logged, is_well = 0.0, "", True
    backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
    while not _pause(pause_s, stopping, stopping if logged else wake, part if is_well else None):
        wake.clear()
        try:
            with heard_by(part.step if is_well else _ignore_step):
                pause_s, logged, is_well = work(wall_clock_ms()), "", True
            part.step()
            backoff.reset()
        except LeaseLost:
            return
        except Exception as e:
            is_well = isinstance(e, StoreUnavailable | KafkaFailure)
            if (text := error_summary(e)) != logged:
                log.warning("%s waits and tries again: %s", name, text)
                logged = text
            pause_s = backoff.next_s()


def _ignore_step() -> None:
    """Ignores a step: while the work fails again and again, its steps are no progress."""


def _pause(pause_s: float, stopping: threading.Event, wake: threading.Event, part: Part | None) -> bool:
    """Pauses for `pause_s`, or until `wake` is set. Returns True if the thread is to end. If `part` is given, the pause
    counts as progress of this part."""
    until = time.monotonic() + pause_s
    while not stopping.is_set():
        if part is not None:
            part.step()
        left_s = until - time.monotonic()
        if left_s <= 0 or wake.wait(min(left_s, 1.0)):
            break
    return stopping.is_set()

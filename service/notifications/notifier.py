"""Notifies the configured receivers: one thread for each, in the process that holds the notifier's lease.

A receiver that fails is tried again after a growing pause, and does not hold up the others. A notification that its
receiver refuses is dropped after MOST_REFUSALS attempts. The store counts dropped notifications.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from sqlalchemy import Engine

from service.notifications.delivery import Batch, Outbox
from service.notifications.notification import Receiver, Undelivered
from service.processes.waiting import Backoff
from service.store import lease, receivers
from service.store.errors import LeaseLost, StoreError
from service.store.lease import NOTIFIER, Lease
from service.store.leased_work import LeasedWork, Work

log = logging.getLogger("txnscope.notifications")

READ_EVERY_S: Final = 0.5
OVERLOOKED_EVERY_S: Final = 10.0
GATHER_S: Final = 1.0
"""Time (s) from the first event to the message, for a receiver that gathers events. So one message has the events of
one outage."""

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
MOST_REFUSALS: Final = 5


class Configured(NamedTuple):
    """A receiver, and the outbox from which it gets its notifications."""

    outbox: Outbox
    receiver: Receiver


class Notifier:
    """Notifies receivers until `stop`. `now_ms`: the wall clock; `monotonic`: a clock in seconds, for pauses."""

    def __init__(
        self,
        engine: Engine,
        configured: Sequence[Configured],
        now_ms: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        self._engine, self._configured = engine, configured
        self._now_ms, self._monotonic = now_ms, monotonic
        self._leased = LeasedWork(engine, NOTIFIER, "notifications", self._begin, now_ms)

    def start(self) -> None:
        self._leased.start()

    def stop(self, within_s: float) -> None:
        """Ends the threads. Returns after at most `within_s`, even if a thread is still sending a notification."""
        self._leased.stop(within_s)

    def _begin(self, held: Lease) -> Sequence[Work]:
        with self._engine.begin() as connection:
            lease.check(connection, held)
            receivers.keep_only(connection, [one.outbox.name for one in self._configured])
        for configured in self._configured:
            configured.outbox.begin(held)
        works = [_Delivery(one, held, self._now_ms, self._monotonic) for one in self._configured]
        return [Work(work.name, work.run) for work in works]


class _Delivery:
    """Delivers the notifications of one receiver under one lease."""

    def __init__(
        self,
        configured: Configured,
        held: Lease,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        self._outbox, self._receiver = configured
        self._held = held
        self._ending = threading.Event()
        self._now_ms, self._monotonic = now_ms, monotonic
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        self._refusals = 0
        self._is_failing = True  # not known before the first success
        self._overlooked_at_s = self._repeated_at_s = float("-inf")

    @property
    def name(self) -> str:
        return f"notifications of {self._outbox.name}"

    def run(self, ending: threading.Event) -> None:
        self._ending, pause_s = ending, 0.0
        while not self._ending.wait(pause_s):
            try:
                pause_s = self._step()
            except LeaseLost:
                self._ending.set()
            except StoreError as error:
                log.debug("%s: %s", self.name, error)
                pause_s = FIRST_PAUSE_S
            except Exception as error:  # a bug of ours, or of a library, must not end the thread
                log.exception("%s failed", self.name)
                pause_s = self._note_failure(type(error).__name__)

    def _step(self) -> float:
        """Delivers the next notifications, and returns the pause (s) before the next step."""
        batch = self._outbox.next(self._now_ms())
        if batch.notifications and self._receiver.gathers_s and batch.is_all:
            self._ending.wait(GATHER_S)
            batch = self._outbox.next(self._now_ms())
        if not batch.is_news and batch.is_all and self._is_due(self._overlooked_at_s, OVERLOOKED_EVERY_S):
            with_mutes = self._receiver.repeats_every_s is not None
            batch = self._outbox.overlooked(batch.sequence, self._now_ms(), with_mutes=with_mutes)
            self._overlooked_at_s = self._monotonic()
        try:
            if batch.notifications:
                self._outbox.check(self._held)
                self._receiver.send(batch.notifications)
            elif batch.is_all:
                self._repeat(batch)
        except Undelivered as error:
            return self._note_undelivered(batch, error)
        self._succeeded(batch)
        if batch.notifications and self._receiver.gathers_s:
            return self._receiver.gathers_s
        return READ_EVERY_S if batch.is_all else 0.0

    def _repeat(self, batch: Batch) -> None:
        every_s = self._receiver.repeats_every_s
        if every_s is not None and self._is_due(self._repeated_at_s, every_s):
            if standing := self._outbox.known_open(batch.sequence, self._now_ms()):
                self._receiver.repeat(standing)
            self._repeated_at_s = self._monotonic()

    def _succeeded(self, batch: Batch) -> None:
        if batch.dropped:
            log.warning(
                "%s: up to %d events were deleted before the receiver took them, and are skipped",
                self.name,
                batch.dropped,
            )
        if batch.is_news or self._is_failing:
            self._outbox.done(self._held, batch, self._now_ms())
        self._is_failing = False
        self._backoff.reset()
        self._refusals = 0

    def _note_undelivered(self, batch: Batch, error: Undelivered) -> float:
        """Drops a notification that was refused MOST_REFUSALS times. Returns the pause (s) before the next attempt."""
        self._refusals = self._refusals + 1 if error.is_refused and not error.taken else int(error.is_refused)
        is_dropped = self._refusals >= MOST_REFUSALS
        if error.taken or is_dropped:
            self._outbox.done(self._held, batch, self._now_ms(), error.taken, int(is_dropped))
        if is_dropped:
            self._refusals = 0
            log.warning(
                "%s: a notification is dropped, because the receiver refused it %d times: %s",
                self.name,
                MOST_REFUSALS,
                error,
            )
            return 0.0
        return max(self._note_failure(str(error)), error.retry_after_s)

    def _note_failure(self, error: str) -> float:
        """Stores the failure, and returns the pause (s) before the next attempt. Jitter keeps several receivers on one
        server from coming back at the same moment."""
        self._is_failing = True
        pause_s = self._backoff.next_s() * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        log.warning("%s: %s; the next attempt follows in %.0f s", self.name, error, pause_s)
        with suppress(StoreError):
            self._outbox.failed(self._held, error, self._now_ms())
        return pause_s

    def _is_due(self, at_s: float, every_s: float) -> bool:
        return self._monotonic() - at_s >= every_s

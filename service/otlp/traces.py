"""Sends the traces of an outbox in order. A trace that is not dropped is sent at least once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from service.metrics.exports import DropReason
from service.notifications.notification import Undelivered
from service.otlp.outbox import AT_ONCE, Batch, TraceOutbox
from service.otlp.sending import FIRST_PAUSE_S, LONGEST_PAUSE_S, Sender
from service.store.errors import LeaseLost, StoreError
from service.store.lease import Lease

log = logging.getLogger("txnscope.otlp")

READ_EVERY_S: Final = 1.0
MOST_REFUSALS: Final = 3


class TraceExport:
    """Sends the traces of an outbox under a lease. If the endpoint refuses a request with several traces, the next
    request has one trace. After each request that the endpoint takes, the next request has up to twice as many, at most
    AT_ONCE. A trace that the endpoint refuses MOST_REFUSALS times, when sent alone, is dropped."""

    def __init__(self, outbox: TraceOutbox, sender: Sender, held: Lease, now_ms: Callable[[], int]) -> None:
        self._outbox, self._sender, self._held, self._now_ms = outbox, sender, held, now_ms
        self._limit = AT_ONCE
        self._refusals = 0

    def run(self, ending: threading.Event) -> None:
        pause_s = 0.0
        while not ending.wait(pause_s):
            try:
                pause_s = self._step()
            except LeaseLost:
                ending.set()
            except StoreError as error:
                log.debug("%s: %s", self._sender.name, error)
                pause_s = FIRST_PAUSE_S
            except Exception:  # a bug of ours, or of a library, must not end the thread
                log.exception("%s failed", self._sender.name)
                pause_s = LONGEST_PAUSE_S

    def _step(self) -> float:
        """Sends the next traces, and returns the pause (s) before the next step."""
        batch = self._outbox.next(self._limit, self._now_ms())
        if batch.traces:
            self._outbox.check(self._held)
            try:
                self._sender.send(encode_spans([span for trace in batch.traces for span in trace]))
            except Undelivered as error:
                return self._pause_after(batch, error)
            self._refusals = 0
            self._limit = min(2 * self._limit, AT_ONCE)
        self._done(batch)
        return READ_EVERY_S if batch.is_all else 0.0

    def _pause_after(self, batch: Batch, error: Undelivered) -> float:
        if error.is_refused and len(batch.traces) > 1:
            self._limit = 1
        elif error.is_refused:
            self._refusals += 1
            if self._refusals == MOST_REFUSALS:
                self._refusals = 0
                self._done(batch)
                self._sender.drop(DropReason.REFUSED, 1)
                log.warning("%s: a trace is dropped, because it was refused %d times", self._sender.name, MOST_REFUSALS)
        return self._sender.pause_after(error)

    def _done(self, batch: Batch) -> None:
        if batch.is_news:
            self._outbox.done(self._held, batch)
        for reason, number in batch.dropped.items():
            self._sender.drop(reason, number)
        if deleted := batch.dropped.get(DropReason.DELETED):
            log.warning("%s: up to %d events were deleted before traces of them were sent", self._sender.name, deleted)

"""Exports by OTLP. Every service sends the metrics of its own process; the service with the exporter's lease also sends
the data of the store.

Each kind of data has a thread of its own, so that a failure in one thread does not delay other threads.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.metrics_core import Metric as Family
from sqlalchemy import Engine

from service.metrics.exports import DropReason, Signal
from service.metrics.page import Metrics
from service.notifications.notification import Undelivered
from service.otlp.configuration import OtlpTable
from service.otlp.metrics import Since, metrics_data, points_of
from service.otlp.outbox import TraceOutbox
from service.otlp.sending import Sender
from service.otlp.spans import SpanMaker
from service.otlp.traces import TraceExport
from service.store import lease, telemetry
from service.store.lease import EXPORTER, Lease
from service.store.leased_work import LeasedWork, Work
from service.store.telemetry import TracePosition

log = logging.getLogger("txnscope.otlp")

SERVICE: Final = "txnscope"
STARTED: Final = "process_start_time_seconds"
"""Name of the metric with the time at which the counters of a process began."""


class Identity(NamedTuple):
    """The service that exports. `instance` distinguishes it from all other services."""

    version: str
    instance: str


class Read(NamedTuple):
    """Metrics at one moment. `since_ms`: a function that returns the start of a counter, given the counter's labels."""

    families: Iterable[Family]
    since_ms: Since


class Exporter:
    """Exports until `stop`. `reading`: an engine that cannot write to the store. `base`: the public address of the
    pages; None: there is none. `now_ms`: the wall clock."""

    def __init__(
        self,
        reading: Engine,
        writing: Engine,
        metrics: Metrics,
        table: OtlpTable,
        who: Identity,
        base: str | None,
        now_ms: Callable[[], int],
    ) -> None:
        self._reading, self._writing, self._metrics, self._base = reading, writing, metrics, base
        self._table, self._who, self._now_ms = table, who, now_ms
        self._stopping = threading.Event()
        self._own = self._metrics_work("OTLP metrics of this process", who.instance, lambda: read_own(metrics))
        self._leased = LeasedWork(writing, EXPORTER, "OTLP", self._begin, now_ms)

    def start(self) -> None:
        if self._table.metrics:
            work = threading.Thread(target=self._own.run, args=(self._stopping,), name=self._own.name, daemon=True)
            work.start()
        self._leased.start()

    def stop(self, within_s: float) -> None:
        """Ends the threads. Returns after at most `within_s`, even if a request is still under way."""
        self._stopping.set()
        self._leased.stop(within_s)

    def _begin(self, held: Lease) -> Sequence[Work]:
        with self._writing.begin() as connection:
            lease.check(connection, held)
            instance, position = telemetry.instance_of(connection), None
            if self._table.traces:
                position = telemetry.begin_traces(connection)
            else:  # the traces of the time in which traces are switched off are never sent
                telemetry.move_traces(connection, None)
        works = []
        if self._table.metrics:
            works.append(self._metrics_work("OTLP metrics of the store", instance, self._read_stored))
        if position is not None:
            works.append(self._trace_work("OTLP traces", instance, held, position))
        return works

    def _trace_work(self, name: str, instance: str, held: Lease, position: TracePosition) -> Work:
        maker = SpanMaker(self._resource(instance), self._scope, self._base)
        per_minute = self._table.traces_per_minute
        outbox = TraceOutbox(self._reading, self._writing, maker, per_minute, position, time.monotonic)
        sender = Sender(self._table, Signal.TRACES, name, self._metrics.exports)
        return Work(name, TraceExport(outbox, sender, held, self._now_ms).run)

    def _metrics_work(self, name: str, instance: str, read: Callable[[], Read]) -> Work:
        sender = Sender(self._table, Signal.METRICS, name, self._metrics.exports)
        export = MetricsExport(
            read, sender, self._resource(instance), self._scope, self._table.interval / 1000, self._now_ms
        )
        return Work(name, export.run)

    def _read_stored(self) -> Read:
        families, since_ms = self._metrics.stored(self._now_ms())
        return Read(families, lambda labels: since_ms.get(labels.get("cluster", "")))

    def _resource(self, instance: str) -> Resource:
        """Returns the OpenTelemetry resource of the exported data. Resource.create is not used, because it would add
        attributes from environment variables."""
        own = {"service.name": SERVICE, "service.version": self._who.version, "service.instance.id": instance}
        return Resource({**self._table.attributes, **own})

    @property
    def _scope(self) -> InstrumentationScope:
        return InstrumentationScope(SERVICE, self._who.version)


def read_own(metrics: Metrics) -> Read:
    """Returns the metrics of this process. Their counters start from 0 when the process starts."""
    families = metrics.own()
    began = next((sample.value for family in families if family.name == STARTED for sample in family.samples), None)
    return Read(families, lambda _: None if began is None else round(began * 1000))


class MetricsExport:
    """Sends metrics at an interval. After a failure, the next attempt sends the values of its own time, not those that
    failed to arrive. Counters miss nothing, because they include everything since their start."""

    def __init__(
        self,
        read: Callable[[], Read],
        sender: Sender,
        resource: Resource,
        scope: InstrumentationScope,
        interval_s: float,
        now_ms: Callable[[], int],
    ) -> None:
        self._read, self._sender, self._resource, self._scope = read, sender, resource, scope
        self._interval_s, self._now_ms = interval_s, now_ms

    def run(self, ending: threading.Event) -> None:
        pause_s = 0.0
        while not ending.wait(pause_s):
            began_s = time.monotonic()
            try:
                pause_s = self._send()
            except Exception:  # a bug of ours, or of a library, must not end the thread
                log.exception("%s failed", self._sender.name)
                pause_s = self._interval_s
            pause_s = max(pause_s - (time.monotonic() - began_s), 0.0)

    def _send(self) -> float:
        """Sends the metrics as they are now, and returns the time (s) from now to the next attempt."""
        families, since_ms = self._read()
        data = metrics_data(families, self._resource, self._scope, since_ms, self._now_ms())
        try:
            self._sender.send(encode_metrics(data))
        except Undelivered as error:
            if error.is_refused:
                self._sender.drop(DropReason.REFUSED, points_of(data))
            return self._sender.pause_after(error)
        return self._interval_s

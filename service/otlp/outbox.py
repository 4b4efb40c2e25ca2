"""Reads from the store which traces are sent next, and writes back which were sent.

The history of ids and the events of findings are the outbox: the store keeps a position in each. The end of a
transaction is read SETTLES_S after it was stored, because the cause of the end and the finding about it may be stored
later.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from opentelemetry.sdk.trace import ReadableSpan
from sqlalchemy import Connection, Engine

from service.domain.findings.kinds import Kind
from service.domain.findings.lifecycle import CONFIRMED, OPENED, REOPENED, RESOLVED
from service.domain.transaction_log.causes import CauseCode
from service.domain.transaction_log.id_delta import minute_of
from service.metrics.exports import DropReason
from service.notifications.feed import start_after
from service.otlp.spans import Facts, SpanMaker
from service.store import telemetry
from service.store.finding_events import FindingEvent, events_after
from service.store.lease import Lease, check
from service.store.queries.clusters import all_clusters, coordinators
from service.store.queries.ended_transactions import (
    EndedTransaction,
    finding_about,
    numbers_known,
    read_ends,
    read_markers,
)
from service.store.telemetry import TracePosition

AT_ONCE: Final = 100
"""Maximum number of traces in a request."""

SETTLES_S: Final = 90.0
"""Time (s) after which the cause of a stored end is final and the finding about the end is stored, unless the
transaction log is read late. Records of the next 15 s may change the cause, and the judge waits for up to 76 s before
it reports timeouts (`service.domain.findings.settling`)."""

MINUTES_KEPT: Final = 1_000
_LOOKS_EVERY_S: Final = 0.5

Trace = tuple[ReadableSpan, ...]
_Minute = tuple[int, CauseCode, int]


class Batch(NamedTuple):
    """The next traces, from the position `after` to `position`. `taken`: for the newest minutes, a mapping from
    (cluster, cause, minute in which transactions ended) to the number of traces chosen so far. `dropped`: a mapping
    from reason to the number of traces that will never be sent (for DELETED an upper bound). `is_all`: True if no
    further trace can be sent now. In a batch with traces of hanging transactions, `is_all` does not cover ends of
    transactions, because they were not read."""

    traces: tuple[Trace, ...]
    after: TracePosition
    position: TracePosition
    taken: Mapping[_Minute, int]
    dropped: Mapping[DropReason, int]
    is_all: bool

    @property
    def is_news(self) -> bool:
        return bool(self.position != self.after or self.dropped)


class TraceOutbox:
    """The traces of all clusters. `reading`: an engine that cannot write to the store. `per_minute`: maximum number of
    traces of the transactions of one cluster that ended in one minute with the same cause. `position`: the position in
    the store. If a method raises StoreError or LeaseLost, it has written nothing."""

    def __init__(
        self,
        reading: Engine,
        writing: Engine,
        maker: SpanMaker,
        per_minute: int,
        position: TracePosition,
        monotonic: Callable[[], float],
    ) -> None:
        self._reading, self._writing, self._maker = reading, writing, maker
        self._per_minute, self._monotonic = per_minute, monotonic
        self._seen: deque[tuple[int, float]] = deque()
        self._settled = 0
        self._taken: Mapping[_Minute, int] = {}
        self._position = position
        self._is_up_to_date = False

    def next(self, limit: int, now_ms: int) -> Batch:
        """Returns the next traces, at most `limit`."""
        with self._reading.connect() as connection:
            batch = self._of_findings(connection, limit, now_ms)
            if not batch.traces:
                batch = self._of_ends(connection, batch, limit, now_ms)
        self._is_up_to_date = not batch.is_news
        return batch

    def check(self, lease: Lease) -> None:
        """Raises LeaseLost if another service exports now."""
        with self._writing.begin() as connection:
            check(connection, lease)

    def done(self, lease: Lease, batch: Batch) -> None:
        """Moves the position in the store to the end of the batch. Call it after the batch was sent, or to drop the
        batch."""
        with self._writing.begin() as connection:
            check(connection, lease)
            telemetry.move_traces(connection, batch.position)
        self._position, self._taken, self._is_up_to_date = batch.position, batch.taken, True

    def _of_findings(self, connection: Connection, limit: int, now_ms: int) -> Batch:
        known = self._position
        start = start_after(connection, known.finding_event)
        events = events_after(connection, start.sequence, limit)
        position = known._replace(finding_event=events[-1].sequence if events else start.sequence)
        lost = max(start.sequence - known.finding_event, 0) if start.is_reset else 0
        traces = tuple(self._hanging(connection, events, now_ms))
        dropped = {DropReason.DELETED: lost} if lost else {}
        return Batch(traces, known, position, self._taken, dropped, len(events) < limit)

    def _hanging(self, connection: Connection, events: list[FindingEvent], now_ms: int) -> Iterator[Trace]:
        if not any(event.finding.kind == Kind.HANGING for event in events):
            return
        kafka_ids = {cluster.name: cluster.kafka_cluster_id for cluster in all_clusters(connection)}
        for event in events:
            if event.finding.kind == Kind.HANGING and event.is_confirmed:
                is_over = event.event == RESOLVED
                if is_over or event.event in (OPENED, CONFIRMED, REOPENED):
                    spans = self._maker.of_hanging(
                        event.cluster, kafka_ids[event.cluster], event.finding, now_ms, is_over=is_over
                    )
                    if spans:
                        yield spans

    def _of_ends(self, connection: Connection, batch: Batch, limit: int, now_ms: int) -> Batch:
        oldest, newest = numbers_known(connection)
        after = batch.position.transition
        if newest < after:  # the table was emptied, and numbers its rows from the start again
            after = self._settled = 0
            self._seen.clear()
        # an upper bound, because a number is also missing where a row was written twice; counted only after an absence
        lost = max(oldest - after - 1, 0) if after and not self._is_up_to_date else 0
        page = read_ends(connection, after, self._settled_number(newest), limit)
        taken, dropped = dict(self._taken), Counter(batch.dropped)
        dropped[DropReason.DELETED] += lost
        traces = []
        for end in page.ends:
            if end.cause == CauseCode.EMPTY_ABORT:
                continue
            minute: _Minute = (end.cluster_id, end.cause, minute_of(end.completed.at_ms))
            if taken.get(minute, 0) >= self._per_minute:
                dropped[DropReason.CAP] += 1
                continue
            spans = self._maker.of_end(end, _facts(connection, end), now_ms)
            if not spans:
                dropped[DropReason.NO_TIME] += 1
                continue
            taken[minute] = taken.get(minute, 0) + 1
            traces.append(spans)
        for minute in list(taken)[:-MINUTES_KEPT]:
            del taken[minute]
        return batch._replace(
            traces=tuple(traces),
            position=batch.position._replace(transition=max(page.up_to, after)),
            taken=taken,
            dropped=+dropped,
            is_all=batch.is_all and page.is_all,
        )

    def _settled_number(self, newest: int) -> int:
        """Returns the highest row number as it was SETTLES_S ago; 0 if no row number was read so long ago. By now, all
        rows with lower numbers are visible. At that time, some of them may have been missing, because writers of two
        clusters may commit in another order than that of their row numbers."""
        now_s = self._monotonic()
        if not self._seen or now_s - self._seen[-1][1] >= _LOOKS_EVERY_S:
            self._seen.append((newest, now_s))
        while self._seen and now_s - self._seen[0][1] >= SETTLES_S:
            self._settled = self._seen.popleft()[0]
        return self._settled


def _facts(connection: Connection, end: EndedTransaction) -> Facts:
    coordinator = coordinators(connection, end.cluster_id).get(end.log_partition)
    return Facts(read_markers(connection, end), finding_about(connection, end), coordinator)

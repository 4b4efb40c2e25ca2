"""Makes the spans of a transaction: a root from its first partition to its end, and children for phases and markers.

Spans have only times that the store has. The ids of traces and spans are hashes of the facts that identify the
transaction, so a trace that is sent a second time is the same trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from service.domain.findings.finding import Finding
from service.domain.partitions.facts import LogPlace
from service.domain.partitions.ledger import Marker
from service.domain.transaction_log.causes import CauseCode
from service.domain.transaction_log.states import COMPLETE_COMMIT, TOPIC, past_time
from service.store.escaped_text import display_id, label_text
from service.store.queries.clusters import LogPartitionRow
from service.store.queries.ended_transactions import AboutEnd, EndedTransaction
from service.views.addresses import finding_page

MOST_MARKERS: Final = 50
"""Maximum number of markers of a transaction that get spans: the latest ones."""

Value = str | int | bool

_SPAN_BYTES: Final = 8
_TRACE_BYTES: Final = 16
_ERRORS: Final = {
    CauseCode.TIMEOUT: "aborted by its coordinator, because it was open for longer than its timeout",
    CauseCode.FENCED: "aborted because another producer with the same transactional.id was started",
    CauseCode.ADMIN: "aborted at the request of an administrator",
}
"""The causes that make an abort an error, each with a description. A client's own abort is no error. An abort without a
known cause is not marked as an error, because it may be none."""


class Facts(NamedTuple):
    """Facts about the end of a transaction that are not in the transaction's own rows in the store. `finding`: the
    finding about the end; None if there is none. `coordinator`: the row of the partition of the transaction log that
    has the end, with the partition's present leader; None if the store has no such row."""

    markers: Sequence[Marker]
    finding: AboutEnd | None
    coordinator: LogPartitionRow | None


class _Span(NamedTuple):
    """A span of a trace. `part`: the key of the span within the trace. `parent`: the key of its parent; None: it is the
    root."""

    name: str
    part: tuple[str | int, ...]
    from_ms: int
    to_ms: int
    attributes: Mapping[str, Value]
    status: Status = Status(StatusCode.UNSET)
    parent: tuple[str | int, ...] | None = ("root",)


@dataclass(frozen=True, slots=True)
class SpanMaker:
    """Makes spans of one OpenTelemetry resource. `base`: the public address of the pages, for links; None: there is
    none."""

    resource: Resource
    scope: InstrumentationScope
    base: str | None

    def of_end(self, end: EndedTransaction, facts: Facts, now_ms: int) -> tuple[ReadableSpan, ...]:
        """Returns the spans of a transaction that ended. Returns an empty tuple if the stored time of its end cannot be
        right."""
        ended_ms = past_time(end.completed.at_ms, now_ms)
        if ended_ms is None:
            return ()
        prepared_ms = _prepared_ms(end, ended_ms, now_ms)
        began_ms = _began_ms(end, prepared_ms, now_ms)
        first_ms = next(ms for ms in (began_ms, prepared_ms, ended_ms) if ms is not None)
        outcome = "commit" if end.completed.to_state == COMPLETE_COMMIT else "abort"
        about = {**_of_cluster(end.cluster, end.kafka_cluster_id), **_of_producer(end), "txnscope.outcome": outcome}
        root = {
            **about,
            "messaging.operation.type": "settle",
            "messaging.operation.name": outcome,
            "txnscope.start_is_known": began_ms is not None,
            **_of_cause(end),
            **_of_coordinator(end, facts.coordinator),
            **self._of_finding(end.cluster, facts.finding),
        }
        spans = [_Span(f"transaction {outcome}", ("root",), first_ms, ended_ms, root, _status_of(end), None)]
        if began_ms is not None and prepared_ms is not None:
            spans.append(_Span("open", ("open",), began_ms, prepared_ms, about))
        if prepared_ms is not None:
            spans.append(_Span("completing", ("completing",), prepared_ms, ended_ms, about))
            for marker in sorted(facts.markers, key=lambda one: one.at_ms)[-MOST_MARKERS:]:
                attributes = {**about, **_of_partition(marker.topic, marker.partition, marker.offset)}
                part = ("marker", marker.topic, marker.partition)
                spans.append(_Span("marker", part, prepared_ms, marker.at_ms, attributes, parent=("completing",)))
        started = ("start", began_ms) if began_ms is not None else ("end", end.log_partition, end.completed.offset)
        return self._made((end.kafka_cluster_id, end.transactional_id, end.completed.producer_id, *started), spans)

    def of_hanging(
        self, cluster: str, kafka_cluster_id: str, finding: Finding, now_ms: int, *, is_over: bool
    ) -> tuple[ReadableSpan, ...]:
        """Returns one span about the hanging transaction. The span begins when the transaction was first seen open:
        at the earliest time in the finding's evidence from the partition, at the latest when the finding was opened.
        Evidence from the transaction log does not count, because the id's newest record may be much older.

        Without `is_over`, it is the child span, which ends when the finding was confirmed. With `is_over`, it is the
        root span, which ends when the finding was resolved. Returns an empty tuple if the finding was not confirmed or,
        with `is_over`, is not resolved."""
        life, subject = finding.life, finding.subject
        ended_ms = life.resolved_at_ms if is_over else life.confirmed_at_ms
        if life.confirmed_at_ms is None or ended_ms is None:
            return ()
        seen = [
            one.at_ms
            for one in finding.observation.evidence
            if past_time(one.at_ms, now_ms) is not None
            and not (isinstance(one.source, LogPlace) and one.source.topic == TOPIC)
        ]
        first_ms = min([*seen, life.opened_at_ms, ended_ms])
        name = subject.transactional_id
        about: dict[str, Value] = {
            **_of_cluster(cluster, kafka_cluster_id),
            **({} if name is None else {"txnscope.transactional_id": label_text(display_id(name))}),
            **_of_partition(subject.topic or "", subject.partition or 0, subject.start_offset or 0),
            "txnscope.producer_id": subject.producer_id or 0,
            "txnscope.producer_epoch": subject.producer_epoch or 0,
            "txnscope.start_is_known": False,
            **self._of_finding(cluster, AboutEnd(finding.id, finding.kind)),
        }
        if is_over:
            resolution = "unknown" if life.resolution is None else str(life.resolution)
            hung = Status(StatusCode.ERROR, f"it was hanging; how it ended: {resolution}")
            root = {**about, "txnscope.resolution": resolution}
            span = _Span("transaction hanging", ("root",), first_ms, ended_ms, root, hung, None)
        else:
            hangs = Status(StatusCode.ERROR, "it hangs: no coordinator is set to end it")
            span = _Span("hanging", ("hanging",), first_ms, ended_ms, about, hangs)
        return self._made((kafka_cluster_id, finding.id, life.confirmed_at_ms), [span])

    def _of_finding(self, cluster: str, finding: AboutEnd | None) -> dict[str, Value]:
        if finding is None:
            return {}
        found: dict[str, Value] = {"txnscope.finding.id": finding.id, "txnscope.finding.kind": str(finding.kind)}
        if self.base is not None:
            found["txnscope.finding.url"] = self.base + finding_page(cluster, finding.id)
        return found

    def _made(self, identity: tuple[object, ...], spans: Sequence[_Span]) -> tuple[ReadableSpan, ...]:
        trace_id = _hash(_TRACE_BYTES, identity)

        def context(part: tuple[object, ...]) -> SpanContext:
            span_id = _hash(_SPAN_BYTES, (trace_id, *part))
            return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

        return tuple(
            ReadableSpan(
                span.name,
                context(span.part),
                None if span.parent is None else context(span.parent),
                self.resource,
                dict(span.attributes),
                status=span.status,
                start_time=span.from_ms * 1_000_000,
                end_time=span.to_ms * 1_000_000,
                instrumentation_scope=self.scope,
            )
            for span in spans
        )


def _prepared_ms(end: EndedTransaction, ended_ms: int, now_ms: int) -> int | None:
    """Returns the time (ms) at which the end was decided; None if that time is not known."""
    if end.prepared is not None:
        at_ms = past_time(end.prepared.at_ms, now_ms)
    else:
        at_ms = None if end.completed.marker_ms is None else past_time(ended_ms - end.completed.marker_ms, now_ms)
    return at_ms if at_ms is not None and at_ms <= ended_ms else None


def _began_ms(end: EndedTransaction, prepared_ms: int | None, now_ms: int) -> int | None:
    """Returns the time (ms) at which the transaction's first partition was added; None if that time is not known."""
    if end.prepared is None or prepared_ms is None or end.prepared.duration_ms is None:
        return None
    return past_time(prepared_ms - end.prepared.duration_ms, now_ms)


def _of_cluster(cluster: str, kafka_cluster_id: str) -> dict[str, Value]:
    return {"messaging.system": "kafka", "txnscope.cluster": cluster, "messaging.kafka.cluster.id": kafka_cluster_id}


def _of_producer(end: EndedTransaction) -> dict[str, Value]:
    row = end.prepared or end.completed
    return {
        "txnscope.transactional_id": label_text(display_id(end.transactional_id)),
        "txnscope.producer_id": row.producer_id,
        "txnscope.producer_epoch": row.producer_epoch,
    }


def _of_partition(topic: str, partition: int, offset: int) -> dict[str, Value]:
    return {
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": str(partition),
        "messaging.kafka.offset": offset,
    }


def _of_coordinator(end: EndedTransaction, coordinator: LogPartitionRow | None) -> dict[str, Value]:
    found: dict[str, Value] = {"txnscope.coordinator.partition": end.log_partition}
    if coordinator is not None:
        found["txnscope.coordinator.broker"] = coordinator.leader
    return found


def _of_cause(end: EndedTransaction) -> dict[str, Value]:
    row = end.prepared or end.completed
    found: dict[str, Value] = {"txnscope.cause": str(end.cause), "txnscope.timeout_ms": row.timeout_ms}
    if row.confidence is not None:
        found["txnscope.confidence"] = str(row.confidence)
    if (note := end.completed.note or row.note) is not None:
        found["txnscope.note"] = note
    return found


def _status_of(end: EndedTransaction) -> Status:
    if end.cause == CauseCode.COMMIT:
        return Status(StatusCode.OK)
    if (words := _ERRORS.get(end.cause)) is None:
        return Status(StatusCode.UNSET)
    confidence = None if end.prepared is None else end.prepared.confidence
    return Status(StatusCode.ERROR, words if confidence is None else f"{words} ({confidence})")


def _hash(length: int, identity: tuple[object, ...]) -> int:
    """Returns an id of `length` bytes, a hash of `identity`; never 0."""
    return int.from_bytes(blake2b(repr(identity).encode(), digest_size=length).digest()) or 1

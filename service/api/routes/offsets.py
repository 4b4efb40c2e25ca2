"""Explains offsets of a partition: who wrote them, and how their transactions ended.

Spans are read from the partition's log; owners and causes come from the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends, Request, Response
from fastapi import Path as PathParameter
from fastapi import Query as QueryParameter
from sqlalchemy import Connection

from service.api.http.answers import answer, unless_known
from service.api.http.fields import text_of_time
from service.api.http.kafka import kafka_of
from service.api.http.parameters import only_known, unusable
from service.api.http.problems import describe
from service.api.http.store import store_of
from service.api.routes import offsets_reading
from service.api.routes.clusters import known_cluster
from service.api.schemas.offsets import AbortedRun, Explanation, Span
from service.domain.partitions import offset_spans
from service.domain.partitions.aborted_run import EndOfRun, OnlyAborted
from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.marker_causes import CLOCKS_MS, KnownPeriod, MarkerCause, cause_of_marker
from service.domain.partitions.offset_spans import SpanBuilder, SpanKind
from service.domain.partitions.own_transactions import OwnDecision, decisions_of_findings, own_decisions
from service.kafka.client import KafkaClient
from service.partition_log import logged_transactions
from service.store.queries.clusters import ClusterRow
from service.store.queries.decisions import (
    CoordinatorDecisions,
    HangingTransaction,
    coordinator_decisions,
    hanging_transactions,
    known_period,
    lost_commits,
)
from service.store.queries.history import Owner, owner_at, read_owners
from service.store.queries.owners import owners as owners_of

_LAST = 2**63 - 1

Partition = Annotated[int, PathParameter(ge=0, lt=2**31)]

router = APIRouter(tags=["partitions"], dependencies=[Depends(only_known)])


class Explained(NamedTuple):
    """An explanation of offsets. `truncated_at`: the offset at which reading stopped with something left unknown, or
    None. `only_aborted`: the run of aborted records at the first offset.
    """

    spans: list[Span]
    truncated_at: int | None
    only_aborted: AbortedRun | None
    as_of_ms: int


class _Past(NamedTuple):
    """The past of a producer id in the store. `decided`: the decisions of each owner, in the order of `owners`."""

    owners: Sequence[Owner]
    decided: Sequence[CoordinatorDecisions]


@router.get(
    "/clusters/{cluster}/partitions/{topic}/{partition}/offsets/{offset}",
    operation_id="explainOffsets",
    response_model=Explanation,
    responses=describe(404, 422, 429, 502, 503),
)
def explain_offsets(
    request: Request,
    cluster: str,
    topic: Annotated[str, PathParameter(max_length=249)],
    partition: Partition,
    offset: Annotated[int, PathParameter(ge=0, lt=_LAST)],
    to: Annotated[
        int | None, QueryParameter(le=_LAST, description="The end offset, exclusive (default: `offset` + 1).")
    ] = None,
) -> Response:
    """Lists every span from `offset` to `to` or the end of the log: who wrote its records, and whether their
    transaction was committed, aborted (why, and when) or is open. Asks Kafka, bounded in bytes and time; `truncated_at`
    is the offset at which the spans end. `only_aborted` sums up the aborted records up to the first one that
    read_committed consumers get, within bounds of its own.
    """
    end = offset + 1 if to is None else to
    if end <= offset:
        raise unusable("to", f"has to be above the offset {offset}")
    with store_of(request).read() as connection:
        found = known_cluster(connection, cluster)
    spans, truncated_at, only_aborted, as_of_ms = explained(request, found, topic, partition, offset, end)
    body = Explanation(spans=spans, truncated_at=truncated_at, only_aborted=only_aborted, as_of=text_of_time(as_of_ms))
    return unless_known(request, answer(body, as_of_ms))


def explained(request: Request, cluster: ClusterRow, topic: str, partition: int, offset: int, end: int) -> Explained:
    """Explains the offsets [offset, end). ProblemError: no such partition or offset, or Kafka cannot be asked.

    This may take seconds: the caller should hold no connection to the store meanwhile.
    """
    as_of_ms = request.app.state.now_ms()
    with kafka_of(request).asking(cluster) as client:
        place = offsets_reading.find(client, topic, partition, offset)
        found, truncated_at = _read(client, place, offset, end)
    # read after the log: a transaction that ended there may have been decided just before
    with store_of(request).read() as connection:
        spans = _spans(connection, cluster, found, (topic, partition), as_of_ms, offset)
        run = _run(connection, cluster, found.only_aborted)
    return Explained(spans, truncated_at, run, as_of_ms)


def _run(connection: Connection, cluster: ClusterRow, run: OnlyAborted | None) -> AbortedRun | None:
    def owner(producer_id: int) -> bytes | None:
        found = read_owners(connection, cluster.id, producer_id)
        return found[0].transactional_id if found else None

    return None if run is None else AbortedRun.of(run, owner)


def _read(client: KafkaClient, place: offsets_reading.Place, offset: int, end: int) -> tuple[SpanBuilder, int | None]:
    """Returns what was read, and the offset at which a bound stopped the reading or None. Offsets near the head of the
    log are read from its start, if that is quickly done."""
    if 0 < offset <= offset_spans.HEAD and not place.log_start:
        from_start = SpanBuilder(0, end, run_from=offset)
        is_whole = offsets_reading.read(client, place, from_start, offsets_reading.BOUNDS_OF_HEAD) is None
        run = from_start.only_aborted
        if is_whole and (run is None or run.ended_by != EndOfRun.BOUND):
            return from_start, None
    found = SpanBuilder(offset, end)
    return found, offsets_reading.read(client, place, found)


def _spans(
    connection: Connection, cluster: ClusterRow, found: SpanBuilder, place: TopicPartition, as_of_ms: int, since: int
) -> list[Span]:
    """Returns the spans from `since` on as bodies, with the owner and the cause of each. `as_of_ms`: when reading
    began."""
    hangs = hanging_transactions(connection, cluster.id, *place)
    spans = found.spans({one.producer_id: one.start_offset for one in hangs if one.is_open})
    known = known_period(connection, cluster)
    own = _own_decisions(connection, cluster, spans, found, place, as_of_ms - CLOCKS_MS)
    past: dict[int, _Past] = {}
    bodies = []
    for whole in spans:
        if whole.next <= since:
            continue
        span = whole._replace(first=max(whole.first, since))
        if span.producer_id is None or span.kind == SpanKind.NON_TRANSACTIONAL:
            bodies.append(Span.with_owner(span, None, None, None, cluster.name))
            continue
        if span.producer_id not in past:
            past[span.producer_id] = _past(connection, cluster, span.producer_id, spans)
        owners, decisions = past[span.producer_id]
        owner = owner_at(owners, span.ended_ms)
        name = None if owner is None else owner.transactional_id
        cause = _cause(span, decisions, hangs, known)
        bodies.append(Span.with_owner(span, name, cause, own.get(whole.first), cluster.name))
    return bodies


def _own_decisions(
    connection: Connection,
    cluster: ClusterRow,
    spans: Sequence[offset_spans.Span],
    walk: SpanBuilder,
    place: TopicPartition,
    until_ms: int,
) -> dict[int, OwnDecision]:
    """Returns what was decided before `until_ms` about records whose own marker is missing, by the first offset of
    their span. The store keeps the last decision of each producer id with its partitions; earlier ones are known from
    findings."""
    producers = {
        span.producer_id for span in spans if span.producer_id is not None and span.kind != SpanKind.NON_TRANSACTIONAL
    }
    found: dict[int, OwnDecision] = {}
    for producer_id, (owner, *others) in owners_of(connection, cluster.id, producers).items():
        logged = logged_transactions(owner, producer_id, place)
        if others or any(one.decided_ms > until_ms for one in logged):
            continue  # the transaction log was replaced; or the marker may have been written after reading began
        found |= own_decisions(spans, logged, walk.before, producer_id, is_whole=walk.has_every_marker)
    return found | decisions_of_findings(spans, lost_commits(connection, cluster.id, *place))


def _past(connection: Connection, cluster: ClusterRow, producer_id: int, spans: Iterable[offset_spans.Span]) -> _Past:
    owners = read_owners(connection, cluster.id, producer_id)
    ended = [span.ended_ms for span in spans if span.producer_id == producer_id and span.ended_ms is not None]
    if not ended:
        return _Past(owners, ())
    first_ms, last_ms = min(ended), max(ended)
    return _Past(
        owners,
        [
            coordinator_decisions(connection, cluster.id, one.transactional_id, producer_id, first_ms, last_ms)
            for one in owners
        ],
    )


def _cause(
    span: offset_spans.Span,
    past: Sequence[CoordinatorDecisions],
    hangs: Iterable[HangingTransaction],
    known: KnownPeriod | None,
) -> MarkerCause | None:
    if span.marker is None or span.ended_ms is None or span.ends_nothing:
        return None
    by_hand = [
        decision
        for one in hangs
        if one.producer_id == span.producer_id and one.start_offset <= span.first
        for decision in one.by_hand
    ]
    if cause := cause_of_marker(span.marker, span.marker_epoch, span.ended_ms, by_hand, None):
        return cause
    if not past:  # no owner: the id is of another cluster, forgotten, or was never registered
        return None
    since_ms = max(one.since_ms for one in past)
    if known is not None:
        known = known._replace(from_ms=max(known.from_ms, since_ms))
    decisions = [decision for one in past for decision in one.decisions]
    return cause_of_marker(span.marker, span.marker_epoch, span.ended_ms, decisions, known)

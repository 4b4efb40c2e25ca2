"""Explains offsets of a partition: which producer wrote their records, and what became of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

from sqlalchemy import Connection

from service.domain.partitions import offset_spans
from service.domain.partitions.aborted_run import EndOfRun, OnlyAborted, only_aborted_text
from service.domain.partitions.facts import PartitionEnds, TopicPartition
from service.domain.partitions.marker_causes import CLOCKS_MS, KnownPeriod, MarkerCause, cause_of_marker
from service.domain.partitions.offset_spans import SpanBuilder, SpanKind
from service.domain.partitions.own_transactions import OwnDecision, decisions_of_findings, own_decisions
from service.kafka.client import KafkaClient
from service.partition_log import logged_transactions
from service.store.escaped_text import display_id
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
from service.views.partitions import offsets_reading
from service.views.partitions.explained_span import ExplainedSpan

MOST_OWNERS: Final = 20
"""Maximum number of owners that are named for the aborted transactions of one run."""


class RunOwner(NamedTuple):
    """A producer id that has aborted transactions in a run. `transactions`: the number of these transactions."""

    producer_id: int
    transactional_id: bytes | None
    transactions: int


class ExplainedRun(NamedTuple):
    """A run of aborted records. `owners`: the owners with the most transactions, at most MOST_OWNERS."""

    run: OnlyAborted
    owners: tuple[RunOwner, ...]

    @staticmethod
    def of(run: OnlyAborted, owner: Callable[[int], bytes | None]) -> ExplainedRun:
        """Returns the run with at most MOST_OWNERS owners: those with the most transactions. `owner` returns the id
        that has, or had, a producer id; None if no such id is known."""
        most = sorted(run.transactions.items(), key=lambda one: (-one[1], one[0]))[:MOST_OWNERS]
        return ExplainedRun(run, tuple(RunOwner(id_, owner(id_), transactions) for id_, transactions in most))

    @property
    def transactions(self) -> int:
        return sum(self.run.transactions.values())

    @property
    def more_owners(self) -> int:
        return len(self.run.transactions) - len(self.owners)

    @property
    def text(self) -> str:
        """Returns the run in one sentence."""
        run = self.run
        names = [
            f"producer id {owner.producer_id}" if owner.transactional_id is None else display_id(owner.transactional_id)
            for owner in self.owners
        ]
        return only_aborted_text(
            run.first, run.to, run.records, self.transactions, names, self.more_owners, run.ended_by
        )


class ExplainedOffsets(NamedTuple):
    """An explanation of offsets. `truncated_at`: the offset at which reading stopped before all offsets were explained;
    else None. `only_aborted`: the run of aborted records that contains the first offset, if there is one."""

    spans: Sequence[ExplainedSpan]
    truncated_at: int | None
    only_aborted: ExplainedRun | None
    as_of_ms: int


def explain(
    client: AbstractContextManager[KafkaClient],
    reading: Callable[[], AbstractContextManager[Connection]],
    cluster: ClusterRow,
    place: TopicPartition,
    offset: int,
    end: int,
    as_of_ms: int,
) -> ExplainedOffsets:
    """Explains the offsets [offset, end). `reading` opens a connection to the store. `as_of_ms`: the present time. The
    explanation may take seconds, so the caller should hold no connection to the store in the meantime. Raises
    NoSuchPartition, NoSuchOffset, KafkaUnavailable, KafkaRefused."""
    with client as asked:
        found, truncated_at = _read(asked, offsets_reading.find(asked, *place, offset), offset, end)
    # read after the log: a transaction that ended there may have been decided just before
    with reading() as connection:

        def owner(producer_id: int) -> bytes | None:
            known = read_owners(connection, cluster.id, producer_id)
            return known[0].transactional_id if known else None

        spans = _spans(connection, cluster, found, place, as_of_ms, offset)
        run = None if found.only_aborted is None else ExplainedRun.of(found.only_aborted, owner)
    return ExplainedOffsets(spans, truncated_at, run, as_of_ms)


def _read(client: KafkaClient, place: PartitionEnds, offset: int, end: int) -> tuple[SpanBuilder, int | None]:
    """Reads batches. Returns two values: the walk over the batches, and the offset at which reading stopped before all
    offsets were explained. The second value is None if all offsets were explained. Reading begins at offset 0 if the
    log begins there, `offset` is at most HEAD, and BOUNDS_OF_HEAD suffice. Otherwise reading begins at `offset`."""
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
) -> list[ExplainedSpan]:
    """Returns the spans from offset `since` on, each with its owner and cause. `as_of_ms`: when reading began."""
    hangs = hanging_transactions(connection, cluster.id, *place)
    spans = found.spans({hang.producer_id: hang.start_offset for hang in hangs if hang.is_open})
    known = known_period(connection, cluster)
    own = _own_decisions(connection, cluster, spans, found, place, as_of_ms - CLOCKS_MS)
    past: dict[int, tuple[Sequence[Owner], Sequence[CoordinatorDecisions]]] = {}
    explained = []
    for whole in spans:
        if whole.next <= since:
            continue
        span = whole._replace(first=max(whole.first, since))
        if span.producer_id is None or span.kind == SpanKind.NON_TRANSACTIONAL:
            explained.append(ExplainedSpan(span))
            continue
        if span.producer_id not in past:
            past[span.producer_id] = _past(connection, cluster, span.producer_id, spans)
        owners, decisions = past[span.producer_id]
        owner = owner_at(owners, span.ended_ms)
        name = None if owner is None else owner.transactional_id
        cause = _cause(span, decisions, hangs, known)
        explained.append(ExplainedSpan.of(span, name, cause, own.get(whole.first)))
    return explained


def _own_decisions(
    connection: Connection,
    cluster: ClusterRow,
    spans: Sequence[offset_spans.Span],
    walk: SpanBuilder,
    place: TopicPartition,
    until_ms: int,
) -> dict[int, OwnDecision]:
    """Returns a mapping from the first offset of a span to the decision about its transaction, for the spans whose own
    marker is missing. Skips a producer id with several owners, or with a decision after `until_ms`. The store has the
    last decision of each producer id; earlier decisions come from findings."""
    producers = {
        span.producer_id for span in spans if span.producer_id is not None and span.kind != SpanKind.NON_TRANSACTIONAL
    }
    found: dict[int, OwnDecision] = {}
    for producer_id, (owner, *others) in owners_of(connection, cluster.id, producers).items():
        logged = logged_transactions(owner, producer_id, place)
        if others or any(transaction.decided_ms > until_ms for transaction in logged):
            continue  # the transaction log was replaced; or the marker may have been written after reading began
        found |= own_decisions(spans, logged, walk.before, producer_id, is_whole=walk.has_every_marker)
    return found | decisions_of_findings(spans, lost_commits(connection, cluster.id, *place))


def _past(
    connection: Connection, cluster: ClusterRow, producer_id: int, spans: Iterable[offset_spans.Span]
) -> tuple[Sequence[Owner], Sequence[CoordinatorDecisions]]:
    """Returns the owners of the producer id, and for each owner, in the same order, the decisions about its
    transactions. Reads no decisions if no span of the producer id has ended."""
    owners = read_owners(connection, cluster.id, producer_id)
    ended = [span.ended_ms for span in spans if span.producer_id == producer_id and span.ended_ms is not None]
    if not ended:
        return owners, ()
    first_ms, last_ms = min(ended), max(ended)
    return owners, [
        coordinator_decisions(connection, cluster.id, owner.transactional_id, producer_id, first_ms, last_ms)
        for owner in owners
    ]


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
        for hang in hangs
        if hang.producer_id == span.producer_id and hang.start_offset <= span.first
        for decision in hang.by_hand
    ]
    if cause := cause_of_marker(span.marker, span.marker_epoch, span.ended_ms, by_hand, None):
        return cause
    if not past:  # no owner: the id is of another cluster, forgotten, or was never registered
        return None
    since_ms = max(coordinator_decisions.since_ms for coordinator_decisions in past)
    if known is not None:
        known = known._replace(from_ms=max(known.from_ms, since_ms))
    decisions = [decision for coordinator_decisions in past for decision in coordinator_decisions.decisions]
    return cause_of_marker(span.marker, span.marker_epoch, span.ended_ms, decisions, known)

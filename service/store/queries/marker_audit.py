"""Reads the inputs of the marker audit: waiting decisions and markers, and the read progress of the transaction log and
the tailed partitions. Also reads the torn transactions that the audit found."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, and_, bindparam, exists, func, or_, select

from service.domain.findings.kinds import Kind
from service.domain.findings.torn import GonePart, MarkerRead, TornTransaction
from service.domain.partitions.facts import LogPlace, TopicPartition
from service.domain.partitions.marker_audit import EndedLog, UnendedRecords
from service.domain.partitions.marker_histories import NOT_KNOWN, Decision, SeenMarker
from service.domain.source_state import SourceName
from service.domain.transaction_log.known_log import LogProgress
from service.domain.transaction_log.states import PREPARE_ABORT, PREPARE_COMMIT, TOPIC
from service.store.escaped_text import display_id
from service.store.many_rows import batched, look_up
from service.store.queries.judge_inputs import log_progress
from service.store.schema import (
    audited_partitions,
    data_gaps,
    data_partitions,
    ended_logs,
    findings,
    log_partitions,
    rejects,
    torn_transactions,
    transactional_ids,
    waiting_decisions,
    waiting_markers,
)

MOST_WAITING: Final = 100_000
"""Maximum number of waiting decisions, and of waiting markers, that a comparison reads."""

MOST_ENDED_LOGS: Final = 200
"""Maximum number of deleted topics' logs that wait for a comparison; logs beyond this number are not compared."""

TORN_READ: Final = 100
_AT_ONCE: Final = 500

_D, _M, _T, _L = waiting_decisions.c, waiting_markers.c, torn_transactions.c, log_partitions.c
_E, _P = ended_logs.c, data_partitions.c
_KINDS_THAT_EXPLAIN: Final = (Kind.HANGING, Kind.ADOPTED)


# the sampler sends requests of its own: the topic exists if a leader answered for it after its deletion had been seen
_IS_THERE: Final = exists().where(
    _P.cluster_id == _E.cluster_id,
    _P.topic == _E.topic,
    _P.partition == _E.partition,
    _P.topic_id == _E.topic_id,
    _P.answered_at_ms > _E.seen_at_ms,
)
_ENDED: Final = (
    select(ended_logs)
    .where(_E.cluster_id == bindparam("cluster"), ~_IS_THERE)
    .order_by(_E.seen_at_ms)
    .limit(MOST_ENDED_LOGS)
)


class TailView(NamedTuple):
    """The read progress of a tailed partition: everything below `next_offset` was read, and stored at `read_at_ms`.
    `end_offset`: the end of the partition's log, requested at `end_asked_at_ms`."""

    next_offset: int
    end_offset: int
    end_asked_at_ms: int
    read_at_ms: int


class Witness(NamedTuple):
    """The numbers (row ids) of the cluster's newest gap and newest undecodable record; 0 if there is none."""

    gaps: int
    rejects: int


class AuditInputs(NamedTuple):
    """The inputs of one comparison, from one state of the store. `audited`: a mapping from partition to the first
    offset that is compared. `ended`: logs of deleted topics. `markers`: the waiting markers, each with the time at
    which it was stored. `completed`: the decisions after which a CompleteX or a later record of their id was read.
    `is_cut`: True if more than MOST_WAITING decisions or markers wait. `is_broken`: True if a gap or reject was stored
    since the comparison of some partition began."""

    log: list[LogProgress]
    tails: dict[TopicPartition, TailView]
    audited: dict[TopicPartition, int]
    ended: list[EndedLog]
    witness: Witness
    decisions: list[Decision]
    markers: list[tuple[SeenMarker, int]]
    completed: frozenset[Decision]
    is_cut: bool
    is_broken: bool


def read_inputs(connection: Connection, cluster_id: int) -> AuditInputs:
    decisions = [
        _decision(*row)
        for row in connection.execute(
            select(*(_D[name] for name in Decision._fields))
            .where(_D.cluster_id == cluster_id)
            .order_by(_D.log_partition, _D.offset)
            .limit(MOST_WAITING + 1)
        )
    ]
    markers = [
        (SeenMarker(*row[:-1]), row[-1])
        for row in connection.execute(
            select(*(_M[name] for name in SeenMarker._fields), _M.read_at_ms)
            .where(_M.cluster_id == cluster_id)
            .order_by(_M.topic, _M.partition, _M.offset)
            .limit(MOST_WAITING + 1)
        )
    ]
    of_audited = select(audited_partitions).where(audited_partitions.c.cluster_id == cluster_id)
    audited = connection.execute(of_audited).all()
    ended = connection.execute(_ENDED, {"cluster": cluster_id}).all()
    witness = _witness(connection, cluster_id)
    tails = {
        (row.topic, row.partition): TailView(*row[2:])
        for row in connection.execute(
            select(_L.topic, _L.partition, _L.next_offset, _L.end_offset, _L.end_asked_at_ms, _L.read_at_ms).where(
                _L.cluster_id == cluster_id, _L.source == SourceName.LEDGER
            )
        )
    }
    return AuditInputs(
        log_progress(connection, cluster_id),
        tails,
        {(row.topic, row.partition): row.from_offset for row in audited},
        [_ended_log(row) for row in ended],
        witness,
        decisions,
        markers,
        _completed(connection, cluster_id, decisions),
        len(decisions) > MOST_WAITING or len(markers) > MOST_WAITING,
        any(Witness(row.gaps, row.rejects) != witness for row in (*audited, *ended)),
    )


def _decision(*columns: Any) -> Decision:
    *before, places, untailed, after_ms = columns
    participants = tuple((str(topic), int(number)) for topic, number in places)
    return Decision._make((*before, participants, untailed, NOT_KNOWN if after_ms is None else after_ms))


def _ended_log(row: Row[Any]) -> EndedLog:
    return EndedLog(
        row.topic,
        row.partition,
        row.topic_id,
        row.seen_at_ms,
        tuple(SeenMarker(row.topic, row.partition, *marker) for marker in row.markers),
        tuple(UnendedRecords(*one) for one in row.unended),
    )


def _witness(connection: Connection, cluster_id: int) -> Witness:
    """Reads the numbers of the newest gap and the newest reject. Gaps of recreated tailed topics do not count: they
    hide no data of other topics, and the comparison of the recreated topic's partitions starts again."""
    g = data_gaps.c
    is_of_one_topic = and_(g.source == SourceName.LEDGER, g.reason == "recreated")
    gap = select(func.max(g.id)).where(g.cluster_id == cluster_id, ~is_of_one_topic)
    reject = select(func.max(rejects.c.id)).where(rejects.c.cluster_id == cluster_id)
    return Witness(connection.scalar(gap) or 0, connection.scalar(reject) or 0)


def _completed(connection: Connection, cluster_id: int, decisions: Sequence[Decision]) -> frozenset[Decision]:
    """Returns the decisions after which another record of their id was read in the same log partition: their CompleteX,
    or a later record. A repetition of the same PrepareX does not count."""
    ids = sorted({one.transactional_id for one in decisions})
    columns = ("transactional_id", "partition", "offset", "state", "producer_id", "producer_epoch", "started_at_ms")
    newest = {row[0]: row[1:] for row in look_up(connection, transactional_ids, columns, cluster_id, ids)}
    done = []
    for decision in decisions:
        row = newest.get(decision.transactional_id)
        if row is None:
            continue
        partition, offset, state, *of_transaction = row
        is_prepared = state in (PREPARE_COMMIT, PREPARE_ABORT)
        is_again = is_prepared and of_transaction == [decision.producer_id, decision.producer_epoch, decision.start_ms]
        if partition == decision.log_partition and offset > decision.offset and not is_again:
            done.append(decision)
    return frozenset(done)


class FirstRecord(NamedTuple):
    """The first of the records that a producer id wrote to a partition in one transaction."""

    topic: str
    partition: int
    producer_id: int
    offset: int


def left_over(connection: Connection, cluster_id: int, records: Collection[FirstRecord]) -> set[FirstRecord]:
    """Returns those of the records that a finding reports as left over from an earlier transaction."""
    f = findings.c
    found: set[FirstRecord] = set()
    for some in batched(sorted(set(records)), _AT_ONCE):
        conditions = (
            and_(f.topic == topic, f.partition == number, f.producer_id == producer_id, f.start_offset == offset)
            for topic, number, producer_id, offset in some
        )
        rows = connection.execute(
            select(f.topic, f.partition, f.producer_id, f.start_offset).where(
                f.cluster_id == cluster_id, f.kind.in_(_KINDS_THAT_EXPLAIN), or_(*conditions)
            )
        )
        found |= {FirstRecord(*row) for row in rows}
    return found


def torn(connection: Connection, cluster_id: int) -> list[TornTransaction]:
    """Returns the oldest TORN_READ torn transactions for which the judge has made no finding yet."""
    rows = connection.execute(
        select(torn_transactions).where(_T.cluster_id == cluster_id).order_by(_T.id).limit(TORN_READ)
    )
    return [
        TornTransaction(
            sequence=row.id,
            transactional_id=row.transactional_id,
            name=display_id(row.transactional_id),
            producer_id=row.producer_id,
            producer_epoch=row.producer_epoch,
            is_commit=row.is_commit,
            decided_at=LogPlace(TOPIC, row.log_partition, row.offset),
            decided_at_ms=row.at_ms,
            otherwise=_markers(row.otherwise),
            as_decided=_markers(row.as_decided),
            unseen=row.unseen,
            gone=tuple(GonePart._make(one) for one in row.gone or ()),
        )
        for row in rows
    ]


def _markers(plain: Iterable[Sequence[object]]) -> tuple[MarkerRead, ...]:
    return tuple(MarkerRead._make(one) for one in plain)

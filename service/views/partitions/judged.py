"""Reads data partitions with their open entries, and judges for each entry which transaction will end it."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final, NamedTuple

from sqlalchemy import Connection, bindparam, func, select

from service.domain.findings.blockers import (
    SAMPLE_FRESH_MS,
    blocker_of,
    unreplicated,
    why_not_judged,
)
from service.domain.findings.kinds import Kind, Status
from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.open_entries import Entry, Owner, Relation, RelationKind, owner_of, relate
from service.domain.partitions.state import PartitionState
from service.domain.reasons.coding import decode
from service.domain.reasons.reason import Reason
from service.domain.reasons.unjudged import LessCommon, LogUnread, TooManyOpen, TooManyStalled
from service.domain.reasons.unread import is_denied, is_log_absent
from service.domain.source_state import SourceName
from service.domain.transaction_log.known_log import KnownLog, known_log, limits_of
from service.domain.transaction_log.states import is_time
from service.store.queries import clusters, judge_inputs
from service.store.queries import partitions as read_partitions
from service.store.queries.owners import owners
from service.store.queries.partitions import observed_at_ms
from service.store.schema import data_partitions, findings, partition_watch

MOST_JUDGED: Final = 2_000
"""Maximum number of stalled partitions that are judged, the longest stalled first; the others are reported as
unknown."""

MOST_ENTRIES: Final = 10_000
"""Maximum number of open entries that are read at once."""

TOO_MANY_ENTRIES: Final = TooManyOpen(MOST_ENTRIES)
REASONS_SHOWN: Final = 10
OTHER_REASONS: Final = LessCommon()
NAMED: Final = 5

_OWN: Final = frozenset({RelationKind.OPEN, RelationKind.OVERDUE, RelationKind.COMPLETING})
"""Relations of an entry that belongs to its owner's present transaction."""

_D, _F, _W = data_partitions.c, findings.c, partition_watch.c
_FOUND: Final = select(_F.kind, _F.topic, _F.partition, _F.producer_id, _F.start_offset, _F.transactional_id).where(
    _F.cluster_id == bindparam("cluster_id"),
    _F.kind.in_((Kind.HANGING, Kind.ADOPTED)),
    _F.status == Status.CONFIRMED,
)


class JudgedEntry(NamedTuple):
    """An open entry, and its relation: which transaction of its owner will end the entry, if any."""

    entry: Entry
    relation: Relation

    @property
    def started_ms(self) -> int:
        """Returns the time (ms) at which the coordinator started the transaction, if the entry belongs to its owner's
        present transaction. Otherwise returns the time at which the entry was first seen. Does not use a producer's
        clock."""
        owner = self.relation.owner
        if owner is not None and self.relation.kind in _OWN and is_time(owner.record.start_ms):
            return owner.record.start_ms
        return self.entry.first_seen_ms


class JudgedPartition(NamedTuple):
    """A partition with its `entries`, sorted by start offset. `blocker`: one of the entries, or None. `why`: the reason
    why the partition cannot be judged, else None."""

    row: PartitionState
    entries: tuple[JudgedEntry, ...] = ()
    blocker: JudgedEntry | None = None
    why: Reason | None = None

    @property
    def owner(self) -> Owner | None:
        return None if self.blocker is None else self.blocker.relation.owner

    @property
    def relation(self) -> RelationKind:
        return RelationKind.UNKNOWN if self.blocker is None else self.blocker.relation.kind


class UnjudgedPartitions(NamedTuple):
    """Partitions that cannot be judged for the same reason. `partitions`: their number; `places`: at most NAMED of
    them."""

    why: Reason
    partitions: int
    places: tuple[TopicPartition, ...]


class Coverage(NamedTuple):
    """Numbers of partitions.

    - `answering`: partitions that answered recently.
    - `judged`: partitions that can be judged.
    - `blocked`: stalled partitions.
    - `not_covered`: partitions that exist but are not watched.
    - `observed_at_ms`: when all watched partitions were last observed; None before the first time.
    - `answered_at_ms`: the same time as `observed_at_ms`; while no partition answers, the time of the last answer.
    - `missing`: the partitions that cannot be judged, grouped by reason; the most common reason comes first.
    - `hides_all`: True if no partition is watched in a cluster that has used transactions, or that denies access to its
      transaction log. (Kafka hides topics that txnscope may not describe.)
    """

    observed_at_ms: int | None = None
    watched: int = 0
    answering: int = 0
    judged: int = 0
    blocked: int = 0
    not_covered: int = 0
    missing: tuple[UnjudgedPartitions, ...] = ()
    hides_all: bool = False
    answered_at_ms: int | None = None

    @property
    def unknown(self) -> int:
        return self.watched - self.judged


def log_unread_reason(connection: Connection, cluster_id: int) -> Reason | None:
    """Returns why the transaction log cannot be read: access is denied, the brokers have no such log, or every
    read so far has failed. Returns None if the last read did not fail, if it failed but earlier reads had succeeded and
    reading may resume, or if nothing is known of the log yet."""
    status = clusters.statuses(connection, cluster_id).get(SourceName.TRANSACTION_LOG)
    if status is None or status.error is None:
        return None
    is_final = status.as_of_ms is None or is_denied(status.error) or is_log_absent(status.error)
    return status.error if is_final else None


def judge(connection: Connection, cluster_id: int, rows: Sequence[PartitionState]) -> list[JudgedPartition]:
    """Judges the open entries of the partitions in `rows`, as of the last observation of all partitions. A partition
    that is not stalled gets no entries."""
    as_of_ms = observed_at_ms(connection, cluster_id)
    stalled = [row.topic_partition for row in rows if row.stalled_since_ms is not None]
    if as_of_ms is None or not stalled:
        return [JudgedPartition(row, why=row.why) for row in rows]
    found = read_partitions.entries(connection, cluster_id, stalled, MOST_ENTRIES)
    entries: dict[TopicPartition, list[Entry]] = {}
    for entry in found:
        entries.setdefault(entry.topic_partition, []).append(entry)
    producers = {one.producer_id for one in found}
    producers |= {row.first.producer_id for row in rows if row.first is not None}
    judging = _Judging(
        owners(connection, cluster_id, sorted(producers)),
        _found(connection, cluster_id),
        known_log_at(connection, cluster_id, as_of_ms),
        as_of_ms,
        entries.keys() - {found[-1].topic_partition} if len(found) == MOST_ENTRIES else None,
        log_unread_reason(connection, cluster_id),
    )
    return [judging.judge(row, entries.get(row.topic_partition, [])) for row in rows]


class _Found(NamedTuple):
    """The entries of confirmed findings, as (topic, partition, producer id, start offset). `hanging`: a mapping from
    each hanging entry to True if its finding names a transactional.id, else to False. `adopted`: the entries that are
    older than the transaction that will end them."""

    hanging: dict[tuple[str, int, int, int], bool]
    adopted: set[tuple[str, int, int, int]]


class _Judging(NamedTuple):
    """The inputs of a judgement. `complete`: the partitions of which all entries were read; None if all entries of
    every partition were read. `log_unread`: the result of `log_unread_reason`."""

    owners: dict[int, list[Owner]]
    found: _Found
    log: KnownLog
    as_of_ms: int
    complete: Set[TopicPartition] | None
    log_unread: Reason | None

    def judge(self, row: PartitionState, entries: Sequence[Entry]) -> JudgedPartition:
        if row.stalled_since_ms is None:
            return JudgedPartition(row, why=row.why)
        seen = sorted((_first_seen(entry, row) for entry in entries), key=lambda entry: entry.start_offset)
        shown = [JudgedEntry(entry, self._relate(entry)) for entry in seen]
        why = row.why or why_not_judged(row, [(entry.entry, entry.relation) for entry in shown], self.as_of_ms)
        if why is None and self.complete is not None and row.topic_partition not in self.complete:
            why = TOO_MANY_ENTRIES
        named = blocker_of(row, seen)
        if (closed := unreplicated(row, seen, self.as_of_ms)) is not None:
            owner = owner_of(closed, self.owners.get(closed.producer_id, []))
            shown.insert(0, JudgedEntry(closed, Relation(RelationKind.UNREPLICATED_MARKER, owner, holder=owner)))
        blocker = next((entry for entry in shown if entry.entry is named), None)
        return JudgedPartition(row, tuple(shown), blocker, why)

    def _relate(self, entry: Entry) -> Relation:
        key = (*entry.topic_partition, entry.producer_id, entry.start_offset)
        relation = relate(
            entry,
            self.owners.get(entry.producer_id, []),
            self.log,
            is_hanging=key in self.found.hanging,
            is_foreign=not self.found.hanging.get(key, True),
            is_adopted=key in self.found.adopted,
        )
        if relation.why == LogUnread() and self.log_unread is not None:
            return relation._replace(why=LogUnread(self.log_unread))
        return relation


def judged_stalled(connection: Connection, cluster_id: int) -> list[JudgedPartition]:
    """Returns at most MOST_JUDGED stalled partitions, judged; the longest stalled first."""
    return judge(connection, cluster_id, read_partitions.stalled(connection, cluster_id, MOST_JUDGED))


def coverage(connection: Connection, cluster_id: int, judged: Sequence[JudgedPartition] | None = None) -> Coverage:
    """Returns the coverage as of the last observation of all partitions. `judged`: the result of `judged_stalled`, if
    the caller has it already."""
    as_of_ms = observed_at_ms(connection, cluster_id)
    if as_of_ms is None:
        return Coverage()
    counts = read_partitions.counts(connection, cluster_id, as_of_ms - SAMPLE_FRESH_MS)
    unjudged: dict[Reason, list[TopicPartition]] = {}
    for partition in judged_stalled(connection, cluster_id) if judged is None else judged:
        if partition.why is not None and partition.row.why is None:
            unjudged.setdefault(partition.why, []).append(partition.row.topic_partition)
    missing = [UnjudgedPartitions(why, len(places), tuple(places[:NAMED])) for why, places in unjudged.items()]
    if counts.stalled > MOST_JUDGED:
        missing.append(UnjudgedPartitions(TooManyStalled(MOST_JUDGED), counts.stalled - MOST_JUDGED, ()))
    return Coverage(
        observed_at_ms=as_of_ms,
        watched=counts.watched,
        answering=counts.answering,
        judged=max(counts.answering - sum(partitions.partitions for partitions in missing), 0),
        blocked=counts.stalled,
        not_covered=counts.not_covered,
        missing=tuple(
            sorted([*_unanswered(connection, cluster_id), *missing], key=lambda partitions: -partitions.partitions)
        ),
        hides_all=not counts.watched and _may_have_transactions(connection, cluster_id),
        answered_at_ms=counts.answered_at_ms,
    )


def _may_have_transactions(connection: Connection, cluster_id: int) -> bool:
    return clusters.has_log(connection, cluster_id) or is_denied(log_unread_reason(connection, cluster_id))


def _unanswered(connection: Connection, cluster_id: int) -> list[UnjudgedPartitions]:
    """Returns the partitions that did not answer, grouped by reason: one group for each of the most common reasons, and
    one group for all other reasons together."""
    unanswered = (_D.cluster_id == cluster_id, _D.is_gone.is_(False), _D.why.is_not(None))
    count = func.count()
    reasons = (
        select(_D.why, count).where(*unanswered).group_by(_D.why).order_by(count.desc(), _D.why).limit(REASONS_SHOWN)
    )
    found = []
    for why, partitions in connection.execute(reasons).all():
        places = select(_D.topic, _D.partition).where(*unanswered, _D.why == why).order_by(_D.topic, _D.partition)
        named = tuple((row.topic, row.partition) for row in connection.execute(places.limit(NAMED)))
        found.append(UnjudgedPartitions(decode(why), partitions, named))
    if len(found) == REASONS_SHOWN:
        others = (connection.scalar(select(count).where(*unanswered)) or 0) - sum(
            partitions.partitions for partitions in found
        )
        found += [UnjudgedPartitions(OTHER_REASONS, others, ())] if others else []
    return found


def _found(connection: Connection, cluster_id: int) -> _Found:
    found = _Found({}, set())
    for row in connection.execute(_FOUND, {"cluster_id": cluster_id}):
        place = (row.topic, row.partition, row.producer_id, row.start_offset)
        if row.kind == Kind.HANGING:
            found.hanging[place] = row.transactional_id is not None
        else:
            found.adopted.add(place)
    return found


def known_log_at(connection: Connection, cluster_id: int, as_of_ms: int) -> KnownLog:
    """Returns what is known of the transaction log at the time of the last observation (`as_of_ms`). If an end offset
    of the log was requested later, returns what is known at that later time."""
    limits = limits_of(judge_inputs.configs(connection, cluster_id))
    progress = judge_inputs.log_progress(connection, cluster_id)
    newest_ms = max([as_of_ms, *(view.end_asked_at_ms for view in progress)])
    return known_log(limits, progress, newest_ms)


def _first_seen(entry: Entry, row: PartitionState) -> Entry:
    """Returns the entry with the time (ms) at which it was first seen. For the entry at the LSO, this time is never
    later than the start of the stall, because LSOs are requested more often than open entries."""
    if row.stalled_since_ms is None or entry.start_offset != row.last_stable_offset:
        return entry
    return entry._replace(first_seen_ms=min(entry.first_seen_ms, row.stalled_since_ms))

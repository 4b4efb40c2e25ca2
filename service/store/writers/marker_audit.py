"""Writes the input and the results of the marker audit, which compares markers with decisions. The sources add
decisions and markers. The audit deletes the compared decisions and markers, counts the results, and stores torn
transactions for the judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, Engine, bindparam, delete, func, insert, select, tuple_, update

from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.ledger import Marker, Unended
from service.domain.partitions.marker_audit import EndedLog, GoneRecords, Result
from service.domain.partitions.marker_histories import NOT_KNOWN, Decision, SeenMarker
from service.domain.transaction_log.facts import Decided
from service.domain.transaction_log.states import PREPARE_COMMIT
from service.store.escaped_text import id_key
from service.store.lease import Lease, check
from service.store.many_rows import Upsert, batched, json_for
from service.store.queries.marker_audit import MOST_ENDED_LOGS, Witness
from service.store.schema import (
    audited_partitions,
    ended_logs,
    torn_transactions,
    unended_records,
    waiting_decisions,
    waiting_markers,
)
from service.store.writers.history import count_audited
from service.store.writers.source import RangeStep

MOST_TORN: Final = 1_000
"""Maximum number of torn transactions that wait for the judge; the counter counts all torn transactions."""

MOST_KEPT: Final = 1_000
"""Maximum number of markers of one partition of a deleted topic, and of producer ids with records there that no marker
has ended. If there are more of either, the markers of the partition are not compared with decisions."""

_AT_ONCE: Final = 500
_INTERNAL: Final = "__"

_DECISIONS = Upsert(waiting_decisions)
_MARKERS = Upsert(waiting_markers)
_UNENDED = Upsert(unended_records)
_AUDITED = Upsert(audited_partitions, replace=("from_offset", "gaps", "rejects"))
_ENDED = Upsert(ended_logs)
_U, _W, _M, _A, _E = unended_records.c, waiting_decisions.c, waiting_markers.c, audited_partitions.c, ended_logs.c
_OF_DECISION: Final = tuple(name for name in Decision._fields if name in torn_transactions.c)
_DELETE_DECISION = delete(waiting_decisions).where(
    _W.cluster_id == bindparam("cluster"), _W.log_partition == bindparam("of_partition"), _W.offset == bindparam("at")
)
_DELETE_MARKER = delete(waiting_markers).where(
    _M.cluster_id == bindparam("cluster"),
    _M.topic == bindparam("name"),
    _M.partition == bindparam("of_partition"),
    _M.offset == bindparam("at"),
)


class Torn(NamedTuple):
    """A torn transaction. `otherwise`: markers that contradict the decision; `as_decided`: markers that agree with the
    decision. `unseen`: number of the transaction's partitions without a known marker. `gone`: records of the
    transaction that were deleted with their topics."""

    decision: Decision
    otherwise: tuple[SeenMarker, ...]
    as_decided: tuple[SeenMarker, ...]
    unseen: int
    gone: tuple[GoneRecords, ...] = ()


class Settled(NamedTuple):
    """The outcome of one comparison.

    - `decided_in`: places (log partition, offset) of the decisions that need not be kept any longer.
    - `used`: markers that need not be kept any longer.
    - `gone`: partitions that are no longer tailed.
    - `begun`: partitions that are compared from now on, each with the first offset that is compared.
    - `ownerless`: (partition, producer id) of records that have no marker and may belong to a transaction in `results`.
    - `ended`: logs of deleted topics, with the markers and records that are still to be compared.
    """

    results: Mapping[Decision, Result]
    decided_in: tuple[tuple[int, int], ...] = ()
    torn: tuple[Torn, ...] = ()
    used: tuple[SeenMarker, ...] = ()
    gone: tuple[TopicPartition, ...] = ()
    begun: Mapping[TopicPartition, int] = {}
    ownerless: frozenset[tuple[TopicPartition, int]] = frozenset()
    ended: tuple[EndedLog, ...] = ()


def keep_decisions(
    connection: Connection,
    cluster_id: int,
    found: Iterable[Decided],
    steps: Mapping[int, RangeStep],
    audited: Callable[[str], bool],
    now_ms: int,
) -> None:
    """Adds the decisions about transactions that have a partition of an `audited` topic. Other partitions of such a
    transaction count as unseen, except those of Kafka's own topics, which are never tailed. `steps`: a mapping from log
    partition to the range that holds its decisions."""
    rows = []
    for one in found:
        places = [(part.topic, number) for part in one.participants for number in part.partitions]
        tailed = sorted(place for place in places if audited(place[0]))
        if not tailed:
            continue
        others = sum(not audited(topic) and not topic.startswith(_INTERNAL) for topic, _ in places)
        values = (one.partition, one.offset, id_key(one.transactional_id), one.producer_id, one.producer_epoch)
        decided = (one.state == PREPARE_COMMIT, one.start_ms, one.at_ms, json_for(connection)(tailed), others, now_ms)
        rows.append((cluster_id, *values, *decided, _not_before_ms(steps[one.partition])))
    _DECISIONS.write(connection, rows)


def _not_before_ms(step: RangeStep) -> int:
    """Returns a time (ms) at which no record of the range was in the log yet: the time when the log's end was last
    requested before this range was read. Returns NOT_KNOWN if the store had not read up to that end, or if the range is
    the first one of its log or of a new generation."""
    before = step.before
    if before is None or step.begins_generation or before.next_offset < before.end_offset:
        return NOT_KNOWN
    return before.end_asked_at_ms


def keep_markers(
    connection: Connection,
    cluster_id: int,
    topic: str,
    markers: Sequence[Marker],
    unended: Sequence[Unended],
    steps: Mapping[int, RangeStep],
    now_ms: int,
) -> None:
    """Adds the markers, and the records that have no marker yet (`unended`). `steps`: a mapping from partition to the
    range that holds its markers.

    Each marker gets the offset of the first record that it ends. If an earlier batch read that first record, the offset
    comes from the record's row in `unended_records`, and the row is deleted.

    Before the markers are added, the markers and records of deleted topics' logs are copied to `ended_logs`. Then all
    rows of partitions that are gone, or begin a new generation, are deleted.
    """
    _keep_ended(connection, cluster_id, topic, steps, now_ms)
    begun = [partition for partition, step in steps.items() if step.begins_generation or step.read.is_gone]
    if begun:
        _forget_partitions(connection, cluster_id, topic, begun)
    earlier = _unended(connection, cluster_id, topic, {one.producer_id for one in markers})
    rows, ended = [], []
    for marker in markers:
        place = marker.partition, marker.producer_id
        from_offset = earlier.pop(place, None)
        if from_offset is not None:
            ended.append(place)
        first = marker.ends_from if from_offset is None else from_offset
        told = marker.producer_id, marker.producer_epoch, marker.is_commit, marker.at_ms, first, now_ms
        rows.append((cluster_id, topic, marker.partition, marker.offset, *told))
    for some in batched(ended, _AT_ONCE):
        connection.execute(
            delete(unended_records).where(
                _U.cluster_id == cluster_id, _U.topic == topic, tuple_(_U.partition, _U.producer_id).in_(some)
            )
        )
    _MARKERS.write(connection, rows)
    _UNENDED.write(connection, [(cluster_id, *one, now_ms) for one in unended])


def _keep_ended(
    connection: Connection, cluster_id: int, topic: str, steps: Mapping[int, RangeStep], now_ms: int
) -> None:
    """Copies the markers of deleted topics' logs, and the records that no marker has ended, to `ended_logs`. Begins at
    the first compared offset. Leaves out a log that is not audited, a log with more than MOST_KEPT markers or more than
    MOST_KEPT such records, and logs beyond MOST_ENDED_LOGS. If a log in `ended_logs` turns out to exist, deletes its
    row there."""
    there = [(p, step.read.topic_id) for p, step in steps.items() if step.begins_generation or step.before is None]
    for some in batched(there, _AT_ONCE):
        of_topic = _E.cluster_id == cluster_id, _E.topic == topic
        connection.execute(delete(ended_logs).where(*of_topic, tuple_(_E.partition, _E.topic_id).in_(some)))
    ended = {p: step.before for p, step in steps.items() if step.before and step.before.topic_id != step.read.topic_id}
    if not ended:
        return
    of_topic = _A.cluster_id == cluster_id, _A.topic == topic
    audited = {row.partition: row for row in connection.execute(select(audited_partitions).where(*of_topic))}
    room = MOST_ENDED_LOGS - (
        connection.scalar(select(func.count()).select_from(ended_logs).where(_E.cluster_id == cluster_id)) or 0
    )
    rows = []
    for partition, before in sorted(ended.items()):
        begun = audited.get(partition)
        if begun is None:
            continue
        unended = connection.execute(
            select(_U.producer_id, _U.from_offset, _U.seen_at_ms)
            .where(_U.cluster_id == cluster_id, _U.topic == topic, _U.partition == partition)
            .where(_U.from_offset >= begun.from_offset)
            .limit(MOST_KEPT + 1)
        ).all()
        markers = connection.execute(
            select(*(_M[name] for name in SeenMarker._fields[2:]))
            .where(_M.cluster_id == cluster_id, _M.topic == topic, _M.partition == partition)
            .where(_M.offset >= begun.from_offset)
            .limit(MOST_KEPT + 1)
        ).all()
        if not (unended or markers) or len(unended) > MOST_KEPT or len(markers) > MOST_KEPT:
            continue
        kept = (json_for(connection)([list(row) for row in found]) for found in (markers, unended))
        rows.append((cluster_id, topic, partition, before.topic_id, now_ms, *kept, begun.gaps, begun.rejects))
    _ENDED.write(connection, rows[: max(room, 0)])


def _forget_partitions(connection: Connection, cluster_id: int, topic: str, partitions: Sequence[int]) -> None:
    for table in (unended_records, waiting_markers, audited_partitions):
        c = table.c
        connection.execute(
            delete(table).where(c.cluster_id == cluster_id, c.topic == topic, c.partition.in_(partitions))
        )


def forget_untailed(connection: Connection, cluster_id: int, tails: Callable[[str], bool]) -> None:
    """Deletes the ended logs of topics that are not tailed any more, because decisions about these topics are no longer
    stored."""
    topics = connection.scalars(select(_E.topic).where(_E.cluster_id == cluster_id).distinct()).all()
    for topic in topics:
        if not tails(topic):
            connection.execute(delete(ended_logs).where(_E.cluster_id == cluster_id, _E.topic == topic))


def _unended(
    connection: Connection, cluster_id: int, topic: str, producers: Collection[int]
) -> dict[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}
    for some in batched(sorted(producers), _AT_ONCE):
        rows = connection.execute(
            select(_U.partition, _U.producer_id, _U.from_offset).where(
                _U.cluster_id == cluster_id, _U.topic == topic, _U.producer_id.in_(some)
            )
        )
        found |= {(row[0], row[1]): row[2] for row in rows}
    return found


def forget_all(connection: Connection, cluster_id: int) -> None:
    """Deletes everything that waits to be compared. Called when no topic is tailed."""
    for table in (unended_records, waiting_decisions, waiting_markers, audited_partitions, ended_logs):
        connection.execute(delete(table).where(table.c.cluster_id == cluster_id))


class MarkerAuditWriter:
    """Writes the outcome of comparisons under the lease. A method that raises LeaseLost or StoreUnavailable has written
    nothing. After LeaseLost, the writer has to stop."""

    def __init__(self, engine: Engine, lease: Lease) -> None:
        self._engine, self._lease = engine, lease

    def settle(self, settled: Settled, witness: Witness) -> None:
        """Writes the outcome in one transaction. Counts the results. Deletes the decisions `decided_in`, the `used`
        markers, the rows of partitions that are no longer tailed, and the `ownerless` records. Updates the ended logs.
        Stores torn transactions for the judge, at most until MOST_TORN wait. Adds the partitions that are compared from
        now on."""
        cluster_id = self._lease.cluster_id
        with self._engine.begin() as connection:
            check(connection, self._lease)
            self._remove(connection, settled)
            count_audited(connection, cluster_id, Counter(result.value for result in settled.results.values()))
            self._hand_over(connection, settled.torn)
            begun = [(cluster_id, *place, offset, *witness) for place, offset in sorted(settled.begun.items())]
            _AUDITED.write(connection, begun)

    def begin_anew(self, given_up: Collection[Decision]) -> None:
        """Deletes all waiting decisions, waiting markers, audited partitions and ended logs, because an unknown part of
        the decisions and markers is missing. Counts the decisions in `given_up` as unseen."""
        with self._engine.begin() as connection:
            check(connection, self._lease)
            cluster_id = self._lease.cluster_id
            count_audited(connection, cluster_id, Counter({Result.UNSEEN.value: len(given_up)}))
            for table in (waiting_decisions, waiting_markers, audited_partitions, ended_logs):
                connection.execute(delete(table).where(table.c.cluster_id == cluster_id))

    def _remove(self, connection: Connection, settled: Settled) -> None:
        cluster_id = self._lease.cluster_id
        if settled.decided_in:
            keys: list[dict[str, object]] = [
                {"cluster": cluster_id, "of_partition": number, "at": at} for number, at in sorted(settled.decided_in)
            ]
            connection.execute(_DELETE_DECISION, keys)
        if settled.used:
            keys = [
                {"cluster": cluster_id, "name": marker.topic, "of_partition": marker.partition, "at": marker.offset}
                for marker in sorted(settled.used)
            ]
            connection.execute(_DELETE_MARKER, keys)
        for topic, partition in settled.gone:
            _forget_partitions(connection, cluster_id, topic, [partition])
        for (topic, partition), producer_id in settled.ownerless:
            of_place = _U.cluster_id == cluster_id, _U.topic == topic, _U.partition == partition
            connection.execute(delete(unended_records).where(*of_place, _U.producer_id == producer_id))
        for log in settled.ended:
            of_log = _E.cluster_id == cluster_id, _E.topic == log.topic, _E.partition == log.partition
            row = *of_log, _E.topic_id == log.topic_id
            if log.markers or log.unended:
                left = {
                    "markers": [list(marker[2:]) for marker in log.markers],
                    "unended": [list(n) for n in log.unended],
                }
                connection.execute(update(ended_logs).where(*row).values(left))
            else:
                connection.execute(delete(ended_logs).where(*row))

    def _hand_over(self, connection: Connection, torn: Sequence[Torn]) -> None:
        if not torn:
            return
        cluster_id = self._lease.cluster_id
        of_cluster = torn_transactions.c.cluster_id == cluster_id
        waiting = connection.scalar(select(func.count()).select_from(torn_transactions).where(of_cluster)) or 0
        for decision, otherwise, as_decided, unseen, gone in torn[: max(MOST_TORN - waiting, 0)]:
            values = {name: getattr(decision, name) for name in _OF_DECISION} | {
                "cluster_id": cluster_id,
                "otherwise": _plain(otherwise),
                "as_decided": _plain(as_decided),
                "unseen": unseen,
                "gone": [
                    [records.topic, records.partition, records.from_offset, records.seen_at_ms] for records in gone
                ],
            }
            connection.execute(insert(torn_transactions).values(values))


def _plain(markers: Iterable[SeenMarker]) -> list[list[object]]:
    return [[marker.topic, marker.partition, marker.offset, marker.is_commit, marker.at_ms] for marker in markers]

"""Writes the rows of ids: the newest record, open partitions, producer ids, and the number of ids in each state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, and_, delete, func, select, update

from service.domain.transaction_log.facts import NO_ID, NO_RECORD, LoneRuns, Run
from service.domain.transaction_log.id_delta import IdDelta, judge_records
from service.domain.transaction_log.journal import NO_ABORT
from service.domain.transaction_log.states import EXPIRED
from service.store.many_rows import Upsert, look_up
from service.store.rows import ids
from service.store.rows.ids import IdRow, last_abort, new_row, newest_record
from service.store.schema import (
    coordinator_states,
    left_behind_records,
    open_participants,
    producer_ids,
    transactional_ids,
)
from service.store.schema.history import ABORTED, COMMITS
from service.store.writers.history import HistoryRows
from service.store.writers.id_rows import (
    APPLICATION_STATES,
    PARTICIPANTS,
    STATES,
    EndedTotals,
    FoldedFacts,
    IdRows,
    keyed,
    places_of,
)
from service.store.writers.source import RangePlan

_NEW_IDS = Upsert(transactional_ids, only_new=True)
_PRODUCERS = Upsert(
    producer_ids, replace=("last_seen_ms", "last_epoch"), fill=("ended_offset", "ended_state", "ended_value")
)
_NEW_PRODUCERS = Upsert(producer_ids, only_new=True)
_PAIR = ("transactional_id", "producer_id")
_NOWHERE = -1  # the offset of an id that has no record in the log as it is now


@dataclass(frozen=True, slots=True)
class IdWriter:
    """Writes the rows and the history of ids. Ids that begin with one of `full_history_prefixes` get a row of history
    for every transition.

    History older than `history_ms` is not written.
    """

    cluster_id: int
    history_ms: int
    full_history_prefixes: tuple[bytes, ...] = ()

    def write(
        self,
        connection: Connection,
        todo: RangePlan,
        runs: Sequence[Run],
        facts: FoldedFacts,
        now_ms: int,
        *,
        counts: bool,
    ) -> EndedTotals:
        """Applies runs of the plan's ranges; `runs` is sorted by `id_rows.by_id`. With `counts=False`, adds nothing to
        the totals and leaves out runs that the store has already, so the call may be repeated."""
        runs, displays = keyed(runs)
        ids = list(dict.fromkeys(run.transactional_id for run in runs))
        rows = IdRows.read(connection, self.cluster_id, ids, todo.partition_count)
        if not counts:
            runs = [run for run in runs if not _is_stored(rows.in_partition(run.transactional_id, run.partition), run)]
        assigned = _count_new_pairs(connection, self.cluster_id, rows.counting, runs) if counts else 0
        ended = EndedTotals(0, 0, Counter(), 0, assigned, [], Counter())
        history = HistoryRows(self.cluster_id, now_ms - self.history_ms, counts)
        for (key, partition), group in groupby(runs, attrgetter("transactional_id", "partition")):
            of_id = list(group)
            old = rows.in_partition(key, partition)
            delta = self._judge(old, of_id, facts, counts)
            row = new_row(self.cluster_id, old, todo.steps[partition].read.generation, of_id, delta)
            if not (_is_gone(of_id) and rows.lives_elsewhere(key, partition)):
                history.add(row, delta)
                ended = _added(ended, delta, rows.application_of(key))
            if key in displays:
                row = row._replace(display=displays[key])
            rows.put(row, places_of(of_id[-1].participants))
        rows.write()
        history.write(connection)
        _PRODUCERS.write(connection, [_producer(self.cluster_id, run) for run in runs if _names_producer(run)])
        return ended

    def write_new(self, connection: Connection, generation: int, runs: LoneRuns) -> None:
        """Writes runs of new ids. Raises IntegrityError if the store already has one of the ids, or one of the pairs
        (id, producer id)."""
        _NEW_IDS.write(connection, ids.id_rows(self.cluster_id, generation, runs))
        opened = zip(runs.transactional_id, runs.participants, strict=True)
        rows = ((self.cluster_id, *place, key) for key, participants in opened for place in places_of(participants))
        PARTICIPANTS.write(connection, list(rows))
        _NEW_PRODUCERS.write(connection, ids.producer_rows(self.cluster_id, runs))
        STATES.write(connection, list(ids.state_rows(self.cluster_id, runs)))

    def _judge(self, old: IdRow | None, runs: Sequence[Run], facts: FoldedFacts, counts: bool) -> IdDelta:
        place = runs[0].transactional_id, runs[0].partition
        before, last = (NO_RECORD, NO_ABORT) if old is None else (newest_record(old), last_abort(old))
        return judge_records(
            before,
            last,
            runs,
            facts.steps.get(place, ()),
            facts.minutes.get(place, ()) if counts else (),
            counts=counts,
            full_history=place[0].startswith(self.full_history_prefixes),
        )


def _added(ended: EndedTotals, delta: IdDelta, application: str | None) -> EndedTotals:
    ended.by_cause.update(delta.aborts)
    if application is not None:
        ended.by_application[application, COMMITS] += delta.commits
        ended.by_application.update({(application, ABORTED[word]): number for word, number in delta.aborts.items()})
    ended.durations.extend(delta.durations)
    return ended._replace(
        commits=ended.commits + delta.commits,
        aborts=ended.aborts + delta.ended_aborts,
        expired=ended.expired + delta.expired,
    )


def expire_partition_ids(connection: Connection, cluster_id: int, partition: int) -> None:
    """Marks the ids of a log partition as expired, because its log was replaced, or the partition no longer exists. An
    id with a record in the new log gets its state back when this record is read.

    Keeps the ids' counts, which cover both logs, and their producer ids, which are history.
    """
    t, o = transactional_ids.c, open_participants.c
    of_partition = and_(t.cluster_id == cluster_id, t.partition == partition)
    connection.execute(
        delete(open_participants).where(
            o.cluster_id == cluster_id, o.transactional_id.in_(select(t.transactional_id).where(of_partition))
        )
    )
    is_known = and_(of_partition, t.application.is_not(None))
    states = connection.execute(
        select(t.application, t.framework, t.state, func.count())
        .where(is_known)
        .group_by(t.application, t.framework, t.state)
    ).all()
    moved = [(cluster_id, *of, state, -ids) for *of, state, ids in states]
    APPLICATION_STATES.write(connection, moved + [(cluster_id, *of, EXPIRED, ids) for *of, _, ids in states])
    expired = connection.execute(
        update(transactional_ids).where(of_partition).values(state=EXPIRED, offset=_NOWHERE, started_at_ms=None)
    )
    for table in (coordinator_states, left_behind_records):
        connection.execute(delete(table).where(table.c.cluster_id == cluster_id, table.c.partition == partition))
    STATES.write(connection, [(cluster_id, partition, EXPIRED, expired.rowcount)])


def _is_stored(row: IdRow | None, run: Run) -> bool:
    """Returns whether the row of the run's partition already contains the run. The offset in a row is always one of the
    present generation, because `expire_partition_ids` removes the offsets of earlier generations."""
    return row is not None and row.record.offset >= run.last.offset


def _is_gone(runs: Sequence[Run]) -> bool:
    return all(record.state == EXPIRED for run in runs for record in (run.first, run.last))


def _count_new_pairs(
    connection: Connection, cluster_id: int, stored: Mapping[bytes, IdRow], runs: Iterable[Run]
) -> int:
    """Returns the number of (id, producer id) pairs in the runs that the store does not contain yet."""
    pairs = {(run.transactional_id, run.first.producer_id) for run in runs if _names_producer(run)}
    pairs -= {(key, row.record.producer_id) for key, row in stored.items()}
    known = look_up(connection, producer_ids, _PAIR, cluster_id, list({key for key, _ in pairs}))
    return len(pairs - {tuple(row) for row in known})


def _names_producer(run: Run) -> bool:
    return run.first.producer_id != NO_ID


def _producer(cluster_id: int, run: Run) -> tuple[Any, ...]:
    first, last = run.first, run.last
    return (
        cluster_id,
        first.producer_id,
        run.transactional_id,
        first.timestamp_ms,
        last.timestamp_ms,
        first.producer_epoch,
        last.producer_epoch,
        *((run.ended_offset, run.ended_state, run.ended_value) if run.ended_value is not None else (None, None, None)),
    )

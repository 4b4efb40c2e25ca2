"""Applies batches read from the transaction log to the store, exactly once. Settles the causes of aborts that waited
for a later record of their id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
from sqlalchemy import Connection, Engine, bindparam, select, update
from sqlalchemy.exc import IntegrityError

from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import is_log_absent
from service.domain.retention_policy import Keep
from service.domain.source_state import SourceName
from service.domain.transaction_log import journal
from service.domain.transaction_log.facts import LogBatch, LoneRuns, RangeRead, Run
from service.domain.transaction_log.id_delta import COUNTED_AS, IdMinute, minute_of
from service.domain.transaction_log.states import TOPIC
from service.store.lease import Lease
from service.store.progress import positions
from service.store.queries.pipeline import without_log
from service.store.rows.ids import IdRow, last_abort
from service.store.schema import coordinator_states, transactional_ids
from service.store.schema.history import ABORTED
from service.store.writers.history import (
    MINUTES,
    count_durations,
    count_ends,
    keep_rejects,
    minute_row,
    revise,
    revision,
)
from service.store.writers.id_rows import EndedTotals, FoldedFacts, by_id, divide_all_again, slices_by_id
from service.store.writers.ids import IdWriter, expire_partition_ids
from service.store.writers.marker_audit import keep_decisions
from service.store.writers.source import (
    RangePlan,
    RangeStep,
    SourceWriter,
    begin_generations,
    finish_ranges,
    plan,
    select_runs,
)

RUNS_AT_ONCE: Final = 10_000
"""Maximum number of runs (about as many ids) that the first read writes in one transaction. Such a transaction locks
the store for a quarter of a second."""


class TransactionLogWriter(SourceWriter):
    """Stores and counts the records of transactional.ids."""

    source = SourceName.TRANSACTION_LOG

    def __init__(
        self,
        engine: Engine,
        lease: Lease,
        *,
        runs_at_once: int = RUNS_AT_ONCE,
        history_ms: int = Keep().history,
        full_history_prefixes: tuple[bytes, ...] = (),
        audited: Callable[[str], bool] | None = None,
    ) -> None:
        """Keeps every transition of ids that begin with one of `full_history_prefixes`, and only the notable
        transitions of other ids. `audited`: a function that returns whether the markers of a topic are compared with
        decisions; None if no markers are compared."""
        super().__init__(engine, lease)
        self._ids = IdWriter(lease.cluster_id, history_ms, full_history_prefixes)
        self._log = (lease.cluster_id, SourceName.TRANSACTION_LOG, TOPIC)
        self._runs_at_once = runs_at_once
        self._audited = audited

    def apply(self, batch: LogBatch, now_ms: int, before_ms: int | None = None) -> Reason | None:
        """Writes the batch and its progress in one transaction. Returns the reason why there is no transaction log;
        None if the log exists or may still be created.

        In the first read of a long log, one transaction would hold the write lock for too long. For this reason, runs
        that change no counter are written first, in short transactions that do not store the progress. After a
        crash between these transactions, the same ranges are read again, and runs that are already stored are skipped.

        `before_ms`: duration of the previous batch, which is added to a histogram. Raises OutOfSequence (start again at
        the store's progress), LeaseLost (stop) or StoreUnavailable (try again). If it raises, no counter was changed.
        """
        facts = FoldedFacts.of(batch)
        with self._transaction(before_ms) as connection:
            todo = self._plan(connection, batch)
            new, known = self._divided(connection, todo, batch)
            uncounted = by_id((*select_runs(todo.steps, batch.runs, counts=False), *known))
            self._expire_ids(connection, todo, [step for step in todo.steps.values() if step.begins_generation])
            if todo.has_grown:
                divide_all_again(connection, self._cluster_id, todo.partition_count)
            begin_generations(connection, *self._log, todo.steps.values(), now_ms)
            if len(uncounted) <= self._runs_at_once and new is None:
                self._ids.write(connection, todo, uncounted, facts, now_ms, counts=False)
                return self._finish(connection, todo, batch, facts, now_ms)
        if new is not None:
            self._write_new(todo, new, facts, now_ms)
        for runs in slices_by_id(uncounted, self._runs_at_once):
            with self._transaction(ahead=True) as connection:
                self._ids.write(connection, todo, runs, facts, now_ms, counts=False)
        with self._transaction() as connection:
            todo = self._plan(connection, batch)
            return self._finish(connection, todo, batch, facts, now_ms)

    def _divided(
        self, connection: Connection, todo: RangePlan, batch: LogBatch
    ) -> tuple[LoneRuns | None, Sequence[Run]]:
        """Divides the lone runs (`LoneRuns`) of the ranges to apply into two parts. The first part has the runs of the
        log partitions that are in their first generation and have no ids in the store yet: all ids of these runs should
        be new. The first part is None if it has no runs. The second part has all other runs."""
        if batch.lone is None:
            return None, ()
        of_cluster = coordinator_states.c.cluster_id == self._cluster_id
        stored = set(connection.scalars(select(coordinator_states.c.partition).where(of_cluster)))
        new = [p for p, step in todo.steps.items() if p not in stored and step.read.generation == _FIRST_GENERATION]
        is_new = np.isin(batch.lone.partition, new)
        is_known = np.isin(batch.lone.partition, list(todo.steps)) & ~is_new
        new_runs = batch.lone.take(np.flatnonzero(is_new)) if is_new.any() else None
        return new_runs, batch.lone.take(np.flatnonzero(is_known)).runs()

    def _write_new(self, todo: RangePlan, runs: LoneRuns, facts: FoldedFacts, now_ms: int) -> None:
        for start in range(0, len(runs.partition), self._runs_at_once):
            some = runs.take(np.arange(start, min(start + self._runs_at_once, len(runs.partition))))
            try:
                with self._transaction(ahead=True) as connection:
                    self._ids.write_new(connection, _FIRST_GENERATION, some)
            except IntegrityError:  # an id is in two partitions: partitions were added
                with self._transaction(ahead=True) as connection:
                    self._ids.write(connection, todo, some.runs(), facts, now_ms, counts=False)

    def _plan(self, connection: Connection, batch: LogBatch) -> RangePlan:
        partitions = {run.partition for run in batch.runs}
        if batch.lone is not None:
            partitions |= set(batch.lone.partition.tolist())
        return plan(positions(connection, *self._log), batch.ranges, partitions)

    def _expire_ids(self, connection: Connection, todo: RangePlan, steps: Sequence[RangeStep]) -> None:
        """Marks the ids of the log partitions in `steps` as expired, because these partitions no longer contain the
        records that were read."""
        for step in steps:
            expire_partition_ids(connection, self._cluster_id, step.read.partition)
        if steps:
            divide_all_again(connection, self._cluster_id, todo.partition_count)

    def _finish(
        self, connection: Connection, todo: RangePlan, batch: LogBatch, facts: FoldedFacts, now_ms: int
    ) -> Reason | None:
        """Writes everything that must be written exactly once, together with the progress. Returns the result of
        `apply`."""
        runs = by_id(select_runs(todo.steps, batch.runs, counts=True))
        ended = self._ids.write(connection, todo, runs, facts, now_ms, counts=True)
        settle_causes(connection, self._cluster_id, [step.read for step in todo.steps.values()], ended)
        counted = {partition for partition, step in todo.steps.items() if step.counts}
        count_durations(connection, self._cluster_id, [d for d in batch.durations if d.partition in counted], ended)
        if self._audited is not None:
            decided = [one for one in batch.decided if one.partition in counted]
            keep_decisions(connection, self._cluster_id, decided, todo.steps, self._audited, now_ms)
        rejects = [reject for reject in batch.rejects if reject.partition in todo.steps]
        count_ends(connection, self._cluster_id, ended, now_ms)
        keep_rejects(connection, *self._log, rejects, now_ms)
        self._expire_ids(connection, todo, [step for step in todo.steps.values() if step.read.is_gone])
        finish_ranges(connection, *self._log, todo.steps.values(), now_ms)
        trouble = batch.trouble
        if trouble is None and not batch.ranges:
            trouble = without_log(connection, self._cluster_id, now_ms)
        self._save_status(connection, now_ms, trouble)
        return trouble if is_log_absent(trouble) else None


_FIRST_GENERATION: Final = 0

AT_ONCE: Final = 1_000

_WAITING = (
    select(transactional_ids)
    .where(
        transactional_ids.c.cluster_id == bindparam("cluster"),
        transactional_ids.c.settles_at_ms <= bindparam("now"),
    )
    .order_by(transactional_ids.c.settles_at_ms)
    .limit(AT_ONCE)
)
_SETTLE = (
    update(transactional_ids)
    .where(
        transactional_ids.c.cluster_id == bindparam("cluster"),
        transactional_ids.c.transactional_id == bindparam("key"),
    )
    .values(abort_is_open=False, settles_at_ms=None)
)


def settle_causes(connection: Connection, cluster_id: int, reads: Iterable[RangeRead], ended: EndedTotals) -> None:
    """Settles the causes of aborts that wait for the next record of their id. An abort is settled only if its log
    partition was read to an end offset that was requested at or after `settles_at_ms`. Only such a read proves that no
    record followed in time. Our clock does not prove it: after an outage, the next record may still be unread.

    Adds to `ended` the aborts that are counted. Reads at most AT_ONCE waiting aborts, the earliest `settles_at_ms`
    first.
    """
    proven = {read.partition: read.end_asked_at_ms for read in reads if read.hi >= read.end_offset}
    if not proven:
        return
    minute_rows, revisions = [], []
    for found in connection.execute(_WAITING, {"cluster": cluster_id, "now": max(proven.values())}).all():
        row = IdRow.of(found)
        if found.settles_at_ms > proven.get(row.partition, -1):
            continue
        before = last_abort(row)
        last = journal.settle(before)
        settle, word = _SETTLE, COUNTED_AS[last.cause.code]
        if last.counts and last.completed_at_ms is not None:
            ended.by_cause[word] += 1
            if row.application is not None:
                ended.by_application[row.application, ABORTED[word]] += 1
            minute = IdMinute(minute_of(last.completed_at_ms)).with_abort(word)
            minute_rows.append(minute_row(cluster_id, row.transactional_id, minute))
            column = transactional_ids.c[f"aborts_{word}"]
            settle = settle.values({column: column + 1})
        if last.cause[:2] != before.cause[:2]:
            settle = settle.values(abort_cause=last.cause.code, abort_confidence=last.cause.confidence)
            revisions.append(revision(row, last.offset, last.cause))
        connection.execute(settle, {"cluster": cluster_id, "key": row.transactional_id})
    revise(connection, revisions)
    MINUTES.write(connection, minute_rows)

"""Applies what was read of tailed partitions to the store, exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from sqlalchemy import Connection, Engine

from service.domain.ledger import SOURCE, LedgerBatch, Volume
from service.domain.minutes import minute_of
from service.store.display import printable
from service.store.lease import Lease, check_and_renew
from service.store.progress import positions
from service.store.schema import partition_markers, partition_minutes, source_status
from service.store.upsert import Upsert
from service.store.writer_counters import count_batch
from service.store.writer_plan import plan
from service.store.writer_progress import begin_generations, finish_ranges

_VOLUMES = Upsert(partition_minutes, add=Volume._fields[3:])
_MARKERS = Upsert(partition_markers)
_WELL = Upsert(source_status, replace=("as_of_ms", "error"))
_IN_TROUBLE = Upsert(source_status, replace=("error",))
_NEVER_MS: Final = 0


class Tailed(NamedTuple):
    """What a batch did: ranges applied, and skipped because they were applied before."""

    ranges: int
    skipped: int


class LedgerWriter:
    """The one writer of what is counted of a cluster's tailed partitions."""

    def __init__(self, engine: Engine, lease: Lease) -> None:
        self._engine, self._lease, self._cluster_id = engine, lease, lease.cluster_id

    def apply(self, batch: LedgerBatch, now_ms: int, before_ms: int | None = None) -> Tailed:
        """Facts and positions in one transaction; or, whatever is raised, nothing. `before_ms`: how long the batch
        before took, to count.

        OutOfSequence: start again at the store's progress. LeaseLost: stop. StoreUnavailable: try again.
        """
        with self._transaction(now_ms) as connection:
            count_batch(connection, self._cluster_id, SOURCE, before_ms)
            done = [self._apply_topic(connection, batch, topic, now_ms) for topic in _topics(batch)]
            if batch.trouble is None:
                _WELL.write(connection, [(self._cluster_id, SOURCE, now_ms, None)])
            else:
                self._save_trouble(connection, batch.trouble)
            return Tailed(sum(one.ranges for one in done), sum(one.skipped for one in done))

    def report_trouble(self, error: str, now_ms: int) -> None:
        """Say in one line why nothing can be read; `as_of_ms` stands still. Raises as `apply`."""
        with self._transaction(now_ms) as connection:
            self._save_trouble(connection, error)

    @contextmanager
    def _transaction(self, now_ms: int) -> Iterator[Connection]:
        with self._engine.begin() as connection:
            check_and_renew(connection, self._lease, now_ms)
            yield connection

    def _apply_topic(self, connection: Connection, batch: LedgerBatch, topic: str, now_ms: int) -> Tailed:
        log = (self._cluster_id, SOURCE, topic)
        volumes = [one for one in batch.volumes if one.topic == topic]
        markers = [one for one in batch.markers if one.topic == topic]
        ranges = [one.read for one in batch.ranges if one.topic == topic]
        told = {one.partition for one in volumes} | {one.partition for one in markers}
        todo = plan(positions(connection, *log), ranges, told)
        begin_generations(connection, *log, todo.steps.values(), now_ms)
        begun = [
            Volume(topic, partition, minute_of(now_ms), 0, 0, 0, 0, 0)
            for partition, step in todo.steps.items()
            if step.before is None
        ]
        counted = [one for one in volumes if one.partition in todo.steps]
        _VOLUMES.write(connection, [(self._cluster_id, *one) for one in (*begun, *counted)])
        _MARKERS.write(connection, [(self._cluster_id, *one) for one in markers if one.partition in todo.steps])
        finish_ranges(connection, *log, todo.steps.values(), now_ms)
        return Tailed(len(todo.steps), todo.skipped)

    def _save_trouble(self, connection: Connection, error: str) -> None:
        _IN_TROUBLE.write(connection, [(self._cluster_id, SOURCE, _NEVER_MS, printable(error))])


def _topics(batch: LedgerBatch) -> list[str]:
    """Of the facts too: those without a range are refused."""
    return sorted({one.topic for facts in (batch.ranges, batch.volumes, batch.markers) for one in facts})

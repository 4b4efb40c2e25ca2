"""Applies what was read of tailed partitions to the store, exactly once."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection

from service.domain.partitions.ledger import LedgerBatch, Volume
from service.domain.source_state import SourceName
from service.domain.transaction_log.minutes import minute_of
from service.store.many_rows import Upsert
from service.store.progress import positions
from service.store.schema import partition_markers, partition_minutes
from service.store.writers.marker_audit import keep_markers
from service.store.writers.range_plan import plan
from service.store.writers.source import SourceWriter, begin_generations, finish_ranges

_VOLUMES = Upsert(partition_minutes, add=Volume._fields[3:])
_MARKERS = Upsert(partition_markers)


class AppliedRanges(NamedTuple):
    """The result of a batch: the ranges applied, and the ranges skipped because they were applied before."""

    ranges: int
    skipped: int


class LedgerWriter(SourceWriter):
    """Counts what is read of tailed partitions."""

    source = SourceName.LEDGER

    def apply(self, batch: LedgerBatch, now_ms: int, before_ms: int | None = None) -> AppliedRanges:
        """Writes facts and positions in one transaction; if an error is raised, nothing is written. `before_ms`:
        duration of the previous batch, which is counted.

        OutOfSequence: start again at the store's progress. LeaseLost: stop. StoreUnavailable: try again.
        """
        with self._transaction(before_ms) as connection:
            done = [self._apply_topic(connection, batch, topic, now_ms) for topic in _topics(batch)]
            self._save_status(connection, now_ms, batch.trouble)
            return AppliedRanges(sum(one.ranges for one in done), sum(one.skipped for one in done))

    def _apply_topic(self, connection: Connection, batch: LedgerBatch, topic: str, now_ms: int) -> AppliedRanges:
        log = (self._cluster_id, SourceName.LEDGER, topic)
        volumes = [one for one in batch.volumes if one.topic == topic]
        markers = [one for one in batch.markers if one.topic == topic]
        ranges = [one.read for one in batch.ranges if one.topic == topic]
        with_facts = {one.partition for one in volumes} | {one.partition for one in markers}
        todo = plan(positions(connection, *log), ranges, with_facts)
        begin_generations(connection, *log, todo.steps.values(), now_ms)
        begun = [
            Volume(topic, partition, minute_of(now_ms), 0, 0, 0, 0, 0)
            for partition, step in todo.steps.items()
            if step.before is None
        ]
        counted = [one for one in volumes if one.partition in todo.steps]
        _VOLUMES.write(connection, [(self._cluster_id, *one) for one in (*begun, *counted)])
        _MARKERS.write(connection, [(self._cluster_id, *one[:-1]) for one in markers if one.partition in todo.steps])
        keep_markers(
            connection,
            self._cluster_id,
            topic,
            [one for one in markers if one.partition in todo.steps],
            [one for one in batch.unended if one.topic == topic and one.partition in todo.steps],
            todo.steps,
            now_ms,
        )
        finish_ranges(connection, *log, todo.steps.values(), now_ms)
        return AppliedRanges(len(todo.steps), todo.skipped)


def _topics(batch: LedgerBatch) -> list[str]:
    """Returns the topics of the ranges and of the facts: facts without a range are refused."""
    return sorted({one.topic for facts in (batch.ranges, batch.volumes, batch.markers) for one in facts})

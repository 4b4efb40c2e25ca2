"""The base of every writer of a source: transactions under the lease, the status, and the progress after a batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

from sqlalchemy import Connection, Engine

from service.domain.reasons.coding import encode, encode_if
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import is_log_absent
from service.processes import progress
from service.store.backends import backend_of
from service.store.lease import Lease, check
from service.store.many_rows import Upsert
from service.store.progress import Position, drop_positions, save_positions
from service.store.schema import data_gaps, source_status
from service.store.writers.counters import count_batch
from service.store.writers.range_plan import Step

NEVER_MS: Final = 0

_WELL = Upsert(source_status, replace=("as_of_ms", "error"))
_IN_TROUBLE = Upsert(source_status, replace=("error",))

RATE_WINDOW_MS: Final = 10_000

_GAPS = Upsert(data_gaps, columns=[column.name for column in data_gaps.c if column.name != "id"], key=("id",))


class SourceWriter:
    """The only writer of what `source` reports about a cluster, for as long as it has the lease."""

    source: ClassVar[str]

    def __init__(self, engine: Engine, lease: Lease) -> None:
        self._engine, self._lease, self._cluster_id = engine, lease, lease.cluster_id

    def report_trouble(self, trouble: Reason) -> None:
        """Stores the reason why nothing can be read, and leaves `as_of_ms` as it is. Raises as `apply`."""
        with self._transaction() as connection:
            self._save_status(connection, NEVER_MS, trouble)

    @contextmanager
    def _transaction(self, before_ms: int | None = None, *, ahead: bool = False) -> Iterator[Connection]:
        """Begins a transaction under the lease. LeaseLost: stop. StoreUnavailable: try again. `before_ms`: duration of
        the previous batch, which is counted.

        `ahead`: a later transaction stores the progress, so that this one need not wait for the disk.
        """
        with self._engine.begin() as connection:
            if ahead:
                backend_of(connection).commit_early(connection)
            check(connection, self._lease)
            progress.step()
            count_batch(connection, self._cluster_id, self.source, before_ms)
            yield connection

    def _save_status(self, connection: Connection, as_of_ms: int, trouble: Reason | None) -> None:
        """Writes that the source was read without trouble as of `as_of_ms`; with `trouble`, writes only the trouble. A
        log that does not exist is as current as it can be: both are written."""
        if trouble is None or is_log_absent(trouble):
            _WELL.write(connection, [(self._cluster_id, self.source, as_of_ms, encode_if(trouble))])
        else:
            _IN_TROUBLE.write(connection, [(self._cluster_id, self.source, NEVER_MS, encode(trouble))])


def begin_generations(
    connection: Connection, cluster_id: int, source: str, topic: str, steps: Iterable[Step], now_ms: int
) -> None:
    """Moves the positions to where new generations begin. The caller voids what is known of the earlier generations."""
    begun = []
    for step in steps:
        if step.before is not None and step.begins_generation:
            begun.append(
                step.before._replace(
                    topic_id=step.read.topic_id,
                    generation=step.read.generation,
                    next_offset=step.read.lo,
                    counted_from=step.counted_from,
                    witnessed_from=step.read.lo,
                )
            )
            _save_gap(connection, cluster_id, source, topic, step, now_ms)
    save_positions(connection, cluster_id, source, topic, begun)


def finish_ranges(
    connection: Connection, cluster_id: int, source: str, topic: str, steps: Iterable[Step], now_ms: int
) -> None:
    """Moves the positions to the ends of the ranges that were read; new generations have been begun before.

    A partition that no longer exists keeps no position.
    """
    moved, gone = [], []
    for step in steps:
        if not step.begins_generation:
            _save_gap(connection, cluster_id, source, topic, step, now_ms)
        if step.read.is_gone and step.before is not None:
            gone.append(step.before)
        else:
            moved.append(_after(step, now_ms))
    save_positions(connection, cluster_id, source, topic, moved)
    drop_positions(connection, cluster_id, source, topic, gone)


def _save_gap(connection: Connection, cluster_id: int, source: str, topic: str, step: Step, now_ms: int) -> None:
    if step.gap is not None:
        row = (
            cluster_id,
            source,
            topic,
            step.read.partition,
            step.read.generation,
            *step.gap[:3],
            now_ms,
            step.gap.missing,
        )
        _GAPS.write(connection, [row])


def _after(step: Step, now_ms: int) -> Position:
    read, before = step.read, step.before
    records = before.records if before else 0
    read_bytes = before.bytes if before else 0
    rate, window_started_ms, window_records = _rate(before, read.records if step.counts else 0, now_ms)
    return Position(
        partition=read.partition,
        topic_id=read.topic_id,
        generation=read.generation,
        next_offset=read.hi,
        leader=read.leader,
        leader_epoch=read.leader_epoch,
        log_start=read.log_start,
        counted_from=step.counted_from,
        end_offset=read.end_offset,
        end_asked_at_ms=read.end_asked_at_ms,
        read_at_ms=now_ms,
        records=records + read.records,
        bytes=read_bytes + read.bytes,
        transitions_per_s=rate,
        window_started_ms=window_started_ms,
        window_records=window_records,
        witnessed_from=_witnessed_from(step),
        topic_partitions=read.topic_partitions or None,
    )


def _witnessed_from(step: Step) -> int:
    """Returns the offset from which on every record that was ever appended was read."""
    read, gap = step.read, step.gap
    known = read.lo if step.before is None or step.begins_generation else step.before.witnessed_from
    return max(known, read.hole_end, gap.to_offset if gap is not None and gap.reason == "retention" else 0)


def _rate(before: Position | None, records: int, now_ms: int) -> tuple[float, int, int]:
    """Returns (transitions_per_s, window_started_ms, window_records); the rate is that of the last whole window."""
    if before is None or now_ms < before.window_started_ms:
        return 0.0, now_ms, records
    records += before.window_records
    elapsed_ms = now_ms - before.window_started_ms
    if elapsed_ms < RATE_WINDOW_MS:
        return before.transitions_per_s, before.window_started_ms, records
    return records * 1000 / elapsed_ms, now_ms, 0

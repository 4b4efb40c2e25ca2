"""The base of every writer of a source: plans which ranges of a batch are applied, begins transactions under the lease,
and stores the source's status and the progress after a batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Final, NamedTuple

from sqlalchemy import Connection, Engine

from service.domain.reasons.coding import encode, encode_if
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import is_log_absent
from service.domain.transaction_log.coordinator_partition import partition_count
from service.domain.transaction_log.facts import Gap, RangeRead, Run
from service.processes import waiting
from service.store.backends import backend_of
from service.store.errors import OutOfSequence
from service.store.lease import Lease, check
from service.store.many_rows import Upsert
from service.store.progress import Position, drop_positions, save_positions
from service.store.schema import data_gaps, source_status
from service.store.writers.history import count_batch


class RangeStep(NamedTuple):
    """A range to apply.

    - `counts`: True if the range's records are counted: the range begins at or above `counted_from`, and `read.counts`
      is True.
    - `begins_generation`: True if the range is the first one of a new generation of a log that the store knows.

    If `read.is_gone`, the step only ends the partition.
    """

    read: RangeRead
    before: Position | None
    counted_from: int
    counts: bool
    begins_generation: bool
    gap: Gap | None


class RangePlan(NamedTuple):
    """`steps`: a mapping from partition to its step. Ranges that were applied before have no step. `partition_count`:
    number of the topic's partitions after these ranges. `has_grown`: True if the store knew the topic with fewer
    partitions before."""

    steps: dict[int, RangeStep]
    partition_count: int
    has_grown: bool


def plan(
    positions: Mapping[int, Position], ranges: Iterable[RangeRead], partitions_with_facts: Iterable[int]
) -> RangePlan:
    """Returns the plan for all ranges. Raises OutOfSequence if a range does not fit the stored position (`_step`), if a
    partition has two ranges, or if a partition has facts but no range.

    `partitions_with_facts`: the partitions about which the batch has facts.
    """
    steps: dict[int, RangeStep] = {}
    seen: set[int] = set()
    there = set(positions)
    read_now = list(ranges)
    for read in read_now:
        (there.discard if read.is_gone else there.add)(read.partition)
        if read.partition in seen:
            raise OutOfSequence(f"partition {read.partition} occurs twice in one batch")
        seen.add(read.partition)
        step = _step(positions.get(read.partition), read)
        if step is not None:
            steps[read.partition] = step
    without_range = set(partitions_with_facts) - seen
    if without_range:
        raise OutOfSequence(f"the batch has facts about partitions {sorted(without_range)}, but no range of them")
    before = partition_count(positions, (position.topic_partitions for position in positions.values()))
    reported = [read.topic_partitions for read in read_now if not read.is_gone and read.topic_partitions]
    count = partition_count(
        there, reported or (position.topic_partitions for p, position in positions.items() if p in there)
    )
    return RangePlan(steps, count, has_grown=0 < before < count)


def select_runs(steps: Mapping[int, RangeStep], runs: Iterable[Run], *, counts: bool) -> list[Run]:
    """Returns the runs in partitions whose step (`RangeStep`) has this value of `counts`."""
    partitions = {partition for partition, step in steps.items() if step.counts is counts}
    return [run for run in runs if run.partition in partitions]


def _step(before: Position | None, read: RangeRead) -> RangeStep | None:
    """Returns the step for the range. Returns None if the whole range was applied before, or if the partition is gone
    and there is no position to end (`_end`). Raises OutOfSequence if the range ends before it begins, or does not fit
    the stored position."""
    if read.lo > read.hi:
        raise _refused(read, before, "ends before it begins")
    if read.is_gone:
        return _end(before, read)
    if before is None or read.generation > before.generation:
        gap, begins_at = read.gap, read.lo
        # the records that the new generation shares with the old log (facts.Gap) are counted already
        counted_from = gap.from_offset if gap is not None and gap.reason in ("diverged", "away") else 0
    else:
        if (read.generation, read.topic_id) != (before.generation, before.topic_id):
            raise _refused(read, before, "is of another log than the stored position")
        if read.hi < before.next_offset or read.lo < read.hi == before.next_offset:
            return None
        gap = _new_gap(before, read)
        begins_at = read.lo if gap is None else gap.to_offset
        if gap is None and read.lo != before.next_offset:
            raise _refused(read, before, "does not begin at the stored position")
        counted_from = before.counted_from
        if gap is None and read.missing and begins_at >= counted_from and read.counts:
            gap = Gap(read.lo, read.hole_end, "cleaned", read.missing)
    if begins_at < counted_from < read.hi:
        raise _refused(read, before, f"begins below counted_from {counted_from} and ends above it")
    return RangeStep(
        read,
        before,
        counted_from,
        counts=begins_at >= counted_from and read.counts,
        begins_generation=before is not None and read.generation > before.generation,
        gap=gap,
    )


def _end(before: Position | None, read: RangeRead) -> RangeStep | None:
    """Returns the step that ends the partition. Returns None if the store has no position of the partition, or has the
    position of the new topic already."""
    if before is None or before.topic_id == read.topic_id:
        return None
    return RangeStep(read, before, counted_from=0, counts=True, begins_generation=False, gap=read.gap)


def _new_gap(before: Position, read: RangeRead) -> Gap | None:
    """Returns the range's gap if it is a retention gap that ends above the store's position, else None. A gap of a new
    generation is stored when the generation begins. Raises OutOfSequence if the gap does not begin at the store's
    position or does not fit the range."""
    gap = read.gap
    if gap is None or gap.reason != "retention" or gap.to_offset <= before.next_offset:
        return None
    if gap.from_offset != before.next_offset or read.lo not in gap[:2] or gap.to_offset > read.hi:
        raise _refused(
            read,
            before,
            f"has a gap {gap.from_offset}-{gap.to_offset} that does not fit the range or the stored position",
        )
    return gap


def _refused(read: RangeRead, before: Position | None, why: str) -> OutOfSequence:
    position = "none" if before is None else f"generation {before.generation}, next_offset {before.next_offset}"
    return OutOfSequence(
        f"partition {read.partition}: range {read.lo}-{read.hi} of generation {read.generation} {why};"
        f" stored position: {position}"
    )


NEVER_MS: Final = 0

_WELL = Upsert(source_status, replace=("as_of_ms", "error"))
_IN_TROUBLE = Upsert(source_status, replace=("error",))

RATE_WINDOW_MS: Final = 10_000

_GAPS = Upsert(data_gaps, columns=[column.name for column in data_gaps.c if column.name != "id"], key=("id",))


class SourceWriter:
    """Writes what `source` reports about a cluster, under the lease."""

    source: ClassVar[str]

    def __init__(self, engine: Engine, lease: Lease) -> None:
        self._engine, self._lease, self._cluster_id = engine, lease, lease.cluster_id

    def report_trouble(self, trouble: Reason) -> None:
        """Stores the reason why the source cannot be read; `as_of_ms` stays as it is. Raises LeaseLost (stop) or
        StoreUnavailable (try again)."""
        with self._transaction() as connection:
            self._save_status(connection, NEVER_MS, trouble)

    @contextmanager
    def _transaction(self, before_ms: int | None = None, *, ahead: bool = False) -> Iterator[Connection]:
        """Begins a transaction under the lease. `before_ms`: duration of the previous batch, which is added to a
        histogram. `ahead`: True if a later transaction stores the progress, so that this transaction need not wait for
        the disk.

        Raises LeaseLost (stop) or StoreUnavailable (try again).
        """
        with self._engine.begin() as connection:
            if ahead:
                backend_of(connection).commit_early(connection)
            check(connection, self._lease)
            waiting.step()
            count_batch(connection, self._cluster_id, self.source, before_ms)
            yield connection

    def _save_status(self, connection: Connection, as_of_ms: int, trouble: Reason | None) -> None:
        """Without trouble, stores the time `as_of_ms` as the source's last success. With trouble, stores only the
        trouble. If the trouble is that the log does not exist, stores both, because there is nothing to read."""
        if trouble is None or is_log_absent(trouble):
            _WELL.write(connection, [(self._cluster_id, self.source, as_of_ms, encode_if(trouble))])
        else:
            _IN_TROUBLE.write(connection, [(self._cluster_id, self.source, NEVER_MS, encode(trouble))])


def begin_generations(
    connection: Connection, cluster_id: int, source: str, topic: str, steps: Iterable[RangeStep], now_ms: int
) -> None:
    """For each step that begins a new generation of its log: moves the position to the start of this generation, and
    stores the step's gap, if it has one. The caller has to expire the ids that were read from earlier generations."""
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
    connection: Connection, cluster_id: int, source: str, topic: str, steps: Iterable[RangeStep], now_ms: int
) -> None:
    """Moves the positions to the ends of the ranges that were read, and stores the gaps that `begin_generations` has
    not stored. Call `begin_generations` before. A partition that no longer exists keeps no position."""
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


def _save_gap(connection: Connection, cluster_id: int, source: str, topic: str, step: RangeStep, now_ms: int) -> None:
    read, gap = step.read, step.gap
    if gap is not None:
        row = (cluster_id, source, topic, read.partition, read.generation, *gap[:3], now_ms, gap.missing)
        _GAPS.write(connection, [row])


def _after(step: RangeStep, now_ms: int) -> Position:
    read, before = step.read, step.before
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
        records=read.records + (before.records if before else 0),
        bytes=read.bytes + (before.bytes if before else 0),
        transitions_per_s=rate,
        window_started_ms=window_started_ms,
        window_records=window_records,
        witnessed_from=_witnessed_from(step),
        topic_partitions=read.topic_partitions or None,
    )


def _witnessed_from(step: RangeStep) -> int:
    """Returns the offset from which on the reads are complete: every record that was ever appended at this offset or
    above was read."""
    read, gap = step.read, step.gap
    known = read.lo if step.before is None or step.begins_generation else step.before.witnessed_from
    return max(known, read.hole_end, gap.to_offset if gap is not None and gap.reason == "retention" else 0)


def _rate(before: Position | None, records: int, now_ms: int) -> tuple[float, int, int]:
    """Returns (transitions_per_s, window_started_ms, window_records); the rate is that of the last complete window, or
    0 before there is one."""
    if before is None or now_ms < before.window_started_ms:
        return 0.0, now_ms, records
    records += before.window_records
    elapsed_ms = now_ms - before.window_started_ms
    if elapsed_ms < RATE_WINDOW_MS:
        return before.transitions_per_s, before.window_started_ms, records
    return records * 1000 / elapsed_ms, now_ms, 0

"""Decides which ranges of a batch apply to the store's progress: the rule behind "exactly once". Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from service.domain.transaction_log.coordinator_partition import partition_count
from service.domain.transaction_log.facts import Gap, RangeRead, Run
from service.store.errors import OutOfSequence
from service.store.progress import Position


class Step(NamedTuple):
    """A range to apply. `counts`: it lies at or above `counted_from`; `begins_generation`: it begins another
    generation.

    Where `read.is_gone`, there is nothing to apply but the end of the partition.
    """

    read: RangeRead
    before: Position | None
    counted_from: int
    counts: bool
    begins_generation: bool
    gap: Gap | None


class Plan(NamedTuple):
    """The steps by partition, and the number of ranges that are skipped because they were applied before.
    `partition_count`: of the log, with these ranges; `has_grown`: it had fewer before."""

    steps: dict[int, Step]
    skipped: int
    partition_count: int = 0
    has_grown: bool = False

    @property
    def generations(self) -> dict[int, int]:
        """Returns, by partition, the generation of the log that the step reads."""
        return {partition: step.read.generation for partition, step in self.steps.items()}


def plan(positions: Mapping[int, Position], ranges: Iterable[RangeRead], partitions_with_facts: Iterable[int]) -> Plan:
    """Returns the plan for all ranges; raises OutOfSequence if one neither follows nor repeats what the store has.

    `partitions_with_facts`: the partitions that the batch has facts of.
    """
    steps: dict[int, Step] = {}
    seen: set[int] = set()
    there = set(positions)
    read_now = list(ranges)
    for read in read_now:
        (there.discard if read.is_gone else there.add)(read.partition)
        if read.partition in seen:
            raise OutOfSequence(f"partition {read.partition} is twice in one batch")
        seen.add(read.partition)
        step = _step(positions.get(read.partition), read)
        if step is not None:
            steps[read.partition] = step
    without_range = set(partitions_with_facts) - seen
    if without_range:
        raise OutOfSequence(f"partitions {sorted(without_range)} have records but no range")
    before = partition_count(positions, (one.topic_partitions for one in positions.values()))
    reported = [read.topic_partitions for read in read_now if not read.is_gone and read.topic_partitions]
    count = partition_count(there, reported or (one.topic_partitions for p, one in positions.items() if p in there))
    return Plan(steps, len(seen) - len(steps), count, has_grown=0 < before < count)


def select_runs(steps: Mapping[int, Step], runs: Iterable[Run], *, counts: bool) -> list[Run]:
    """Returns the runs of the ranges that apply and count, or of those that apply and do not count."""
    partitions = {partition for partition, step in steps.items() if step.counts is counts}
    return [run for run in runs if run.partition in partitions]


def _step(before: Position | None, read: RangeRead) -> Step | None:
    """Returns the step for the range; None: all of it was applied before."""
    if read.lo > read.hi:
        raise _refused(read, before, "ends before it begins")
    if read.is_gone:
        return _end(before, read)
    if before is None or read.generation > before.generation:
        gap, begins_at = read.gap, read.lo
        # the part that the new generation shares with the log that was read (facts.Gap) was counted then
        counted_from = gap.from_offset if gap is not None and gap.reason in ("diverged", "away") else 0
    else:
        if (read.generation, read.topic_id) != (before.generation, before.topic_id):
            raise _refused(read, before, "is of another log")
        if read.hi < before.next_offset or read.lo < read.hi == before.next_offset:
            return None
        gap = _new_gap(before, read)
        begins_at = read.lo if gap is None else gap.to_offset
        if gap is None and read.lo != before.next_offset:
            raise _refused(read, before, "does not follow")
        counted_from = before.counted_from
        if gap is None and read.missing and begins_at >= counted_from and read.counts:
            gap = Gap(read.lo, read.hole_end, "cleaned", read.missing)
    if begins_at < counted_from < read.hi:
        raise _refused(read, before, f"straddles counted_from {counted_from}")
    return Step(
        read,
        before,
        counted_from,
        counts=begins_at >= counted_from and read.counts,
        begins_generation=before is not None and read.generation > before.generation,
        gap=gap,
    )


def _end(before: Position | None, read: RangeRead) -> Step | None:
    """Returns the step that ends the partition; None: its row was deleted before, or it is back with the new topic."""
    if before is None or before.topic_id == read.topic_id:
        return None
    return Step(read, before, counted_from=0, counts=True, begins_generation=False, gap=read.gap)


def _new_gap(before: Position, read: RangeRead) -> Gap | None:
    """Returns the gap if it begins at the store's position; others were recorded when met, or when their generation
    began."""
    gap = read.gap
    if gap is None or gap.reason != "retention" or gap.to_offset <= before.next_offset:
        return None
    if gap.from_offset != before.next_offset or read.lo not in gap[:2] or gap.to_offset > read.hi:
        raise _refused(read, before, f"has a gap {gap.from_offset}-{gap.to_offset} that does not fit")
    return gap


def _refused(read: RangeRead, before: Position | None, why: str) -> OutOfSequence:
    position = "nothing" if before is None else f"generation {before.generation} next_offset {before.next_offset}"
    return OutOfSequence(
        f"partition {read.partition}: range {read.lo}-{read.hi} of generation {read.generation} {why};"
        f" the store has {position}"
    )

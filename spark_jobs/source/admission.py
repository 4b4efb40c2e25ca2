"""Decides how many of the unread records one micro-batch reads, and divides them among its tasks. Sends no requests to
Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from service.domain.partitions.ledger import TopicRange
from service.domain.transaction_log.facts import RangeRead
from spark_jobs.source.log_identity import LogPosition


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """Upper bounds of one micro-batch. `records`: approximate number of records of all partitions together.
    `first_read`: number of records of one partition in a batch that reads history (see `admit`)."""

    records: int = 400_000
    first_read: int = 2_000_000


READ_AT_ONCE = 300_000
"""Approximate number of records that a task folds before it hands over the result. The number bounds the task's
memory."""


def admit(positions: Mapping[int, LogPosition], ends: Mapping[int, int], limits: BatchLimits) -> dict[int, int]:
    """Returns, for each partition of `ends`, the offset at which this batch ends (exclusive). The offset is never below
    the partition's position.

    Records below `counted_from` are history. While any history is unread, a batch reads only history: of a few
    partitions, each as far as possible, so that each id is folded once and written once. After that, every partition
    gets a share of the limit in proportion to its lag. No range straddles `counted_from`.
    """
    history = {p: min(end, positions[p].counted_from) for p, end in ends.items()}
    unread = {p: until for p, until in history.items() if positions[p].next_offset < until}
    stay = {p: positions[p].next_offset for p in ends}
    if unread:
        return stay | _whole_partitions(positions, unread, limits)
    lag = {p: max(end - positions[p].next_offset, 0) for p, end in ends.items()}
    total = sum(lag.values())
    if total <= limits.records:
        return {p: stay[p] + lag[p] for p in ends}
    return {p: stay[p] + min(lag[p], lag[p] * limits.records // total + 1) for p in ends}


def _whole_partitions(
    positions: Mapping[int, LogPosition], unread: Mapping[int, int], limits: BatchLimits
) -> dict[int, int]:
    until: dict[int, int] = {}
    taken = 0
    for p, history_end in unread.items():
        if taken >= limits.records:
            break
        until[p] = min(history_end, positions[p].next_offset + limits.first_read)
        taken += until[p] - positions[p].next_offset
    return until


def shares(lags: Mapping[str, int], sizes: Mapping[str, int], budget: int) -> dict[str, BatchLimits]:
    """Returns a mapping from topic to its limits in a batch of about `budget` bytes. `lags`: the number of unread
    records of each topic; `sizes`: the bytes per record of each topic."""
    total = sum(lag * sizes[topic] for topic, lag in lags.items())
    if total <= budget:
        return {topic: BatchLimits(records=lag) for topic, lag in lags.items()}
    return {topic: BatchLimits(records=lag * budget // total) for topic, lag in lags.items()}


Range = TypeVar("Range", RangeRead, TopicRange)


def into_tasks(ranges: Sequence[Range], cores: int) -> list[list[Range]]:
    """Divides the ranges into at most `cores` tasks of about equal size. Empty ranges, which only report the log's
    start and end, go into the first task.

    A task costs about 16 ms, however little it reads, so there must not be a task for each partition.
    """
    to_read = sorted((r for r in ranges if r.hi > r.lo), key=lambda r: (r.leader, r.lo - r.hi))
    tasks: list[list[Range]] = [[] for _ in range(min(cores, len(to_read)) or 1)]
    loads = [0] * len(tasks)
    for r in to_read:
        lightest = loads.index(min(loads))
        tasks[lightest].append(r)
        loads[lightest] += r.hi - r.lo
    tasks[0].extend(r for r in ranges if r.hi == r.lo)
    return tasks


def split_by_size(ranges: Sequence[RangeRead]) -> Iterator[list[RangeRead]]:
    """Divides `ranges`, without cutting any, into lists of at least READ_AT_ONCE offsets; the last list may have fewer.
    If there are no ranges, yields one empty list."""
    some: list[RangeRead] = []
    records = 0
    for r in ranges:
        some.append(r)
        records += r.hi - r.lo
        if records >= READ_AT_ONCE:
            yield some
            some, records = [], 0
    if some or not ranges:
        yield some

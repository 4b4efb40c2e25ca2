"""Decides which ranges of a log the next micro-batch reads. Runs in the driver's planner process, with an open
connection to Kafka.

The planner has the newest positions in memory; the store has the positions at which reading begins after the next
start. Spark's own offsets only number the plans: after a restart, reading does not begin at Spark's checkpoint
(docs/adr/0005).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple

from service.domain.partitions.ledger import TopicRange
from service.domain.reasons.reason import Reason, combined
from service.domain.reasons.unread import NoTransactionLog, PartitionsUnreadable, TopicGone, TransactionsSeen
from service.domain.transaction_log.facts import NO_LEADER, Gap, RangeRead
from service.kafka.client import KafkaClient
from service.kafka.cluster import TopicLayout, topic_layout
from service.kafka.errors import KafkaFailure
from service.kafka.fetch import fetch_piece
from service.kafka.settings import ClientSettings
from service.kafka.transactions import lists_ids_without_log
from spark_jobs.source.admission import BatchLimits, Range, admit
from spark_jobs.source.log_identity import (
    LogObservation,
    LogPosition,
    divergence,
    observe_log,
    unanswered_reason,
)

LAYOUT_MAX_AGE_MS = 1_000
TRY_AGAIN_MS = 5_000
"""Time (ms) between two attempts to fetch from partitions that could not be read."""
LIST_EVERY_MS = 10_000
"""Time (ms) between two ListTransactions requests. They are sent while the topic does not exist, until a broker lists
an id."""
_TRY_BYTES = 1 << 20
_TRY_TIMEOUT_MS = 3_000


@dataclass(frozen=True, slots=True)
class BatchPlan(Generic[Range]):
    """The ranges that one micro-batch reads. Ranges with `lo == hi` only report the log's start and end. `trouble`: why
    a part of the log, or of the cluster, could not be read."""

    ranges: tuple[Range, ...]
    trouble: Reason | None

    @property
    def has_data(self) -> bool:
        reads = (one.read if isinstance(one, TopicRange) else one for one in self.ranges)
        return any(read.hi > read.lo or read.gap or read.is_gone for read in reads)


class LogPlanner:
    """Plans batches over one topic, from `positions` on. Time comes from `now_ms`. `unreadable`: the partitions whose
    failure ended an earlier query, and the reason. Such a partition is read again once a fetch from it succeeds. All
    other partitions are read meanwhile."""

    def __init__(
        self,
        settings: ClientSettings,
        topic: str,
        positions: dict[int, LogPosition],
        now_ms: Callable[[], int],
        unreadable: PartitionsUnreadable | None = None,
    ) -> None:
        self._unreadable, self._tried_at_ms = unreadable, 0
        self._settings, self._topic, self._now_ms = settings, topic, now_ms
        self._positions = dict(positions)
        self._client: KafkaClient | None = None
        self._layout: TopicLayout | None = None
        self._layout_at_ms = 0
        self._listed_at_ms = -LIST_EVERY_MS
        self._has_ids = False

    def plan(self) -> BatchPlan[RangeRead]:
        """Observes the topic and returns the next plan. A failure of Kafka is not raised: the plan then has the failure
        as `trouble`, and no ranges."""
        try:
            seen = self._observe()
            if seen is not None:
                self._has_ids = False
                return self._plan(seen)
            return BatchPlan((), TopicGone(self._topic) if self._positions else self._why_no_topic())
        except KafkaFailure as e:
            self.close()
            return BatchPlan((), e.reason)

    def advance(self, plan: BatchPlan[RangeRead]) -> None:
        """Moves the positions to the end of the batch of `plan`, so that the next plan begins there."""
        self._positions = advanced(self._positions, plan.ranges)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client, self._layout = None, None

    def _observe(self) -> LogObservation | None:
        if self._client is None:
            self._client = KafkaClient(self._settings)
        now = self._now_ms()
        if self._layout is None or now - self._layout_at_ms >= LAYOUT_MAX_AGE_MS:
            self._layout, self._layout_at_ms = topic_layout(self._client, self._topic), now
        if self._layout is None:
            return None
        seen = observe_log(self._client, self._layout, now)
        if seen.unanswered:
            self._layout_at_ms = 0
        return seen

    def _why_no_topic(self) -> Reason | None:
        """Returns why there is no topic. Returns None while the topic may still be created; it is then read from its
        start."""
        client, now_ms = self._client, self._now_ms()
        assert client is not None
        if not self._has_ids and now_ms - self._listed_at_ms >= LIST_EVERY_MS:
            self._listed_at_ms = now_ms
            self._has_ids = lists_ids_without_log(client)
        return NoTransactionLog(TransactionsSeen.LISTED) if self._has_ids else None

    def _plan(self, seen: LogObservation) -> BatchPlan[RangeRead]:
        """Returns the plan for an observation, and updates the positions. All positions are updated together, after the
        last request to Kafka. So if a request fails, no position is changed, and a later plan reports the gaps."""
        client = self._client
        assert client is not None
        followed = follow(seen, self._positions, lambda p, position: divergence(client, seen, p, position))
        self._try_again(client, seen, followed.positions)
        waiting = set() if self._unreadable is None else {*self._unreadable.partitions}
        ends = {p: followed.positions[p].next_offset if p in waiting else end for p, end in seen.ends.items()}
        ranges = ranges_to(admit(followed.positions, ends, BatchLimits()), seen, followed)
        self._positions = followed.positions
        return BatchPlan(ranges, combined([unanswered_reason(seen), self._unreadable]))

    def _try_again(self, client: KafkaClient, seen: LogObservation, positions: Mapping[int, LogPosition]) -> None:
        """Fetches, every TRY_AGAIN_MS, a piece of each partition that could not be read. A partition stays unreadable
        if its fetch fails, if its fetch cannot begin within _TRY_TIMEOUT_MS, or if the partition does not answer at
        present. A partition that has nothing to read, or no longer exists, counts as readable."""
        if self._unreadable is None or self._now_ms() - self._tried_at_ms < TRY_AGAIN_MS:
            return
        self._tried_at_ms = self._now_ms()
        give_up = time.monotonic() + _TRY_TIMEOUT_MS / 1000
        untried: dict[int, int] = {}
        failing: dict[int, int] = {}
        for p, offset in zip(self._unreadable.partitions, self._unreadable.offsets, strict=True):
            if (p in seen.ends and positions[p].next_offset >= seen.ends[p]) or p not in seen.layout.leaders:
                continue
            if p not in seen.ends or time.monotonic() >= give_up:
                untried[p] = offset
            elif not _can_fetch(client, seen.layout, p, offset):
                failing[p] = offset
        still = untried | failing  # in the order of the next attempts
        self._unreadable = (
            replace(self._unreadable, partitions=tuple(still), offsets=tuple(still.values())) if still else None
        )


def _can_fetch(client: KafkaClient, layout: TopicLayout, partition: int, offset: int) -> bool:
    """Returns True if a fetch succeeds. An offset outside the log counts as success, because the reader continues
    behind deleted records."""
    try:
        fetch_piece(client, layout.topic, layout.leaders[partition], partition, offset, _TRY_BYTES)
    except KafkaFailure:
        return False
    return True


class Followed(NamedTuple):
    """The positions in the observed logs. `gaps`: a mapping from partition to the offsets at which its log is no longer
    the log that was read. `removed`: a mapping from each partition that no longer exists to its last position and a gap
    over all offsets that were read."""

    positions: dict[int, LogPosition]
    gaps: dict[int, Gap]
    removed: dict[int, tuple[LogPosition, Gap]]


def follow(
    seen: LogObservation,
    known: Mapping[int, LogPosition],
    find_divergence: Callable[[int, LogPosition], Gap | None],
    *,
    from_start: bool = True,
) -> Followed:
    """Returns the positions after an observation, given the `known` ones. `find_divergence`: as
    `log_identity.divergence`. If it returns a gap, the log is read again: from its start if `from_start`, otherwise
    from the offset at which the gap begins."""
    lost = {  # partitions that the topic no longer has since it was created again
        p: Gap(0, position.next_offset, "recreated")
        for p, position in known.items()
        if p not in seen.layout.leaders and position.topic_id != seen.layout.topic_id
    }
    positions = {p: position for p, position in known.items() if p not in lost}
    gaps: dict[int, Gap] = {}
    for p, start in seen.starts.items():
        position = positions.get(p)
        if position is None:  # a partition that was added later: all of its records count
            positions[p] = LogPosition(seen.layout.topic_id, 0, start, -1, start)
        elif gap := find_divergence(p, position):
            gaps[p] = gap
            begin = start if from_start else max(start, gap.from_offset)
            positions[p] = position.restarted(seen.layout.topic_id, begin, gap)
    return Followed(positions, gaps, {p: (known[p], gap) for p, gap in lost.items()})


def ranges_to(until: Mapping[int, int], seen: LogObservation, followed: Followed) -> tuple[RangeRead, ...]:
    """Returns the ranges from each position to `until`, and a last range for each partition that no longer exists."""
    ranges = [_range(seen, p, followed.positions[p], hi, followed.gaps.get(p)) for p, hi in until.items()]
    topic_id, asked_at_ms = seen.layout.topic_id, seen.asked_at_ms
    ranges += [end_of(p, position, topic_id, asked_at_ms, gap) for p, (position, gap) in followed.removed.items()]
    return tuple(ranges)


def advanced(positions: Mapping[int, LogPosition], ranges: Iterable[RangeRead]) -> dict[int, LogPosition]:
    """Returns the positions, each moved to the end of its range in `ranges`."""
    moved = {
        r.partition: positions[r.partition]._replace(next_offset=r.hi, leader_epoch=r.leader_epoch)
        for r in ranges
        if not r.is_gone
    }
    return {**positions, **moved}


def _range(seen: LogObservation, partition: int, position: LogPosition, hi: int, gap: Gap | None) -> RangeRead:
    leader = seen.layout.leaders[partition]
    return RangeRead(
        partition=partition,
        topic_id=position.topic_id,
        generation=position.generation,
        lo=position.next_offset,
        hi=hi,
        leader=leader.node,
        leader_epoch=leader.epoch,
        log_start=seen.starts[partition],
        end_offset=seen.ends[partition],
        end_asked_at_ms=seen.asked_at_ms,
        records=0,
        bytes=0,
        gap=gap,
        counts=position.next_offset >= position.counted_from,
        topic_partitions=len(seen.layout.leaders),
    )


def end_of(partition: int, position: LogPosition, topic_id: str, asked_at_ms: int, gap: Gap | None) -> RangeRead:
    """Returns the `RangeRead` that reports that a partition no longer exists. `topic_id`: id of the topic that replaced
    the old one; empty if the topic was deleted."""
    generation = position.generation + 1
    return RangeRead(partition, topic_id, generation, 0, 0, NO_LEADER, -1, 0, 0, asked_at_ms, 0, 0, gap, True)

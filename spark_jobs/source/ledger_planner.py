"""Decides which ranges of the tailed partitions the next micro-batch reads. Each topic follows the rules of `planner`.

Tailing of a topic begins as soon as all of its partitions answer and may be read. Tailing begins at the present ends of
the partitions; records before these ends are never read. A partition that is added later is read from its start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from service.domain.partitions.ledger import TopicRange
from service.domain.reasons.reason import Reason, combined
from service.domain.transaction_log.facts import Gap, RangeRead
from service.kafka.client import KafkaClient
from service.kafka.cluster import TopicLayout
from service.kafka.ends import Ends
from service.kafka.errors import KafkaFailure, KafkaRefused, KafkaUnavailable
from service.kafka.fetch import fetch_piece
from service.wire.batches import LENGTH_END
from service.wire.header_columns import read_headers
from spark_jobs.source.admission import BatchLimits, admit, shares
from spark_jobs.source.log_identity import LogObservation, LogPosition, divergence, unanswered_reason
from spark_jobs.source.planner import BatchPlan, Followed, advanced, end_of, follow, ranges_to
from spark_jobs.source.reader_settings import WatchedTopics
from spark_jobs.source.requests import Brokers, Place
from spark_jobs.source.watched import is_over

SAMPLE_BYTES: Final = 64 << 10


class LedgerBrokers(Brokers):
    """The requests of LedgerPlanner to a cluster."""

    def divergence(self, seen: LogObservation, partition: int, position: LogPosition) -> Gap | None:
        return self._ask(lambda client: divergence(client, seen, partition, position))

    def record_size(self, layout: TopicLayout, partition: int, offset: int) -> int | None:
        """Returns the bytes per record (strictly, per offset) at `offset`; None if there is no batch at this offset.
        Raises KafkaUnavailable, and KafkaRefused if the topic may not be read."""
        return self._ask(lambda client: _record_size(client, layout, partition, offset))


def _record_size(client: KafkaClient, layout: TopicLayout, partition: int, offset: int) -> int | None:
    leader = layout.leaders[partition]
    if leader.node < 0:
        raise KafkaUnavailable(f"{layout.topic}-{partition} has no leader now")
    headers = list(read_headers(fetch_piece(client, layout.topic, leader, partition, offset, SAMPLE_BYTES) or b""))
    if not headers:
        return None
    size = sum(header.length + LENGTH_END for header in headers)
    return max(size // (headers[-1].next_offset - headers[0].base_offset), 1)


MEASURE_EVERY_MS: Final = 10_000
DEFAULT_SIZE: Final = 1_000
"""Assumed bytes per record until a batch can be measured."""


class _Measured(NamedTuple):
    at_ms: int
    size: int
    refusal: Reason | None


class RecordSizes:
    """Measures the size of the records of each topic. The size in one partition counts for the whole topic."""

    def __init__(self, kafka: LedgerBrokers, now_ms: Callable[[], int]) -> None:
        self._kafka, self._now_ms = kafka, now_ms
        self._known: dict[str, _Measured] = {}

    def of(self, layout: TopicLayout, partition: int, offset: int, *, is_news: bool) -> int:
        """Returns the bytes per record of the topic. The size is measured at `offset` of `partition`. The size is
        measured again after MEASURE_EVERY_MS if there are records at `offset` (`is_news`), or if the last measurement
        was refused.

        Raises KafkaUnavailable, and KafkaRefused if the topic may not be read.
        """
        known, now = self._known.get(layout.topic), self._now_ms()
        wants_more = known is not None and (is_news or known.refusal is not None)
        if known is None or (wants_more and is_over(known.at_ms, MEASURE_EVERY_MS, now)):
            size, refusal = (DEFAULT_SIZE if known is None else known.size), None
            try:
                size = self._kafka.record_size(layout, partition, offset) or size
            except KafkaRefused as e:
                refusal = e.reason
            self._known[layout.topic] = known = _Measured(now, size, refusal)
        if known.refusal is not None:
            raise KafkaRefused(known.refusal)
        return known.size


BUDGET: Final = 32 << 20
"""Approximate maximum number of bytes of one micro-batch. The store writes a micro-batch in one transaction."""
LAYOUT_EVERY_MS: Final = 2_000
_NO_TOPIC: Final = ""
"""The topic id that is reported for a deleted topic."""


class _TailedTopic(NamedTuple):
    """A topic as observed in one planning round. `size`: bytes per record; None if the topic must not be read now."""

    seen: LogObservation
    followed: Followed
    size: int | None

    @property
    def topic(self) -> str:
        return self.seen.layout.topic

    @property
    def lag(self) -> int:
        positions = self.followed.positions
        return sum(max(end - positions[p].next_offset, 0) for p, end in self.seen.ends.items())

    def ranges(self, limits: BatchLimits | None) -> list[TopicRange]:
        """Returns the ranges to read. If `limits` is None, the ranges are empty and only report the logs' starts and
        ends."""
        positions, ends = self.followed.positions, self.seen.ends
        until = {p: positions[p].next_offset for p in ends} if limits is None else admit(positions, ends, limits)
        return [TopicRange(self.topic, read) for read in ranges_to(until, self.seen, self.followed)]


class LedgerPlanner:
    """Plans batches. `positions`: a mapping from topic to the positions at which the first batch begins, by partition.
    Time comes from `now_ms`."""

    def __init__(
        self,
        kafka: LedgerBrokers,
        watch: WatchedTopics,
        positions: Mapping[str, Mapping[int, LogPosition]],
        now_ms: Callable[[], int],
        budget: int = BUDGET,
    ) -> None:
        self._kafka, self._watch, self._now_ms, self._budget = kafka, watch, now_ms, budget
        self._positions = dict(positions)
        self._sizes = RecordSizes(kafka, now_ms)
        self._layouts: dict[str, TopicLayout] = {}
        self._layouts_at_ms = 0
        self._absent: set[str] = set()
        self._deleted: list[str] = []
        self._missing: list[Reason] = []

    def plan(self) -> BatchPlan[TopicRange]:
        """Returns the next plan. A failure of Kafka is not raised, but becomes the `trouble` of the plan. Topics
        without a failure are planned."""
        try:
            observations = self._observe()
        except KafkaFailure as e:
            self._layouts_at_ms = 0
            return BatchPlan((), e.reason)
        troubles = list(self._missing)
        tailed = [topic for seen in observations if (topic := self._tailed(seen, troubles))]
        sizes = {one.topic: one.size for one in tailed if one.size is not None}
        limits = shares({one.topic: one.lag for one in tailed if one.topic in sizes}, sizes, self._budget)
        ranges = self._ends_of_deleted()
        for topic in tailed:
            ranges += topic.ranges(limits.get(topic.topic))
            self._positions[topic.topic] = topic.followed.positions
        return BatchPlan(tuple(ranges), combined(troubles))

    def advance(self, plan: BatchPlan[TopicRange]) -> None:
        """Moves the positions to the end of the batch of `plan`, so that the next plan begins there."""
        reads: dict[str, list[RangeRead]] = {}
        for topic, read in plan.ranges:
            reads.setdefault(topic, []).append(read)
        for topic, of_topic in reads.items():
            if topic in self._positions:
                self._positions[topic] = advanced(self._positions[topic], of_topic)

    def close(self) -> None:
        self._kafka.close()

    def _observe(self) -> list[LogObservation]:
        now = self._now_ms()
        if is_over(self._layouts_at_ms, LAYOUT_EVERY_MS, now):
            self._refresh(now)
        found = self._kafka.ends(self._layouts, with_start=True)
        return [_observation(layout, found, now) for layout in self._layouts.values()]

    def _refresh(self, now_ms: int) -> None:
        topics = self._kafka.topics()
        layouts = {name: layout for name, layout in topics.layouts.items() if self._watch.tails(name)}
        missing = {topic: self._kafka.listing(topic) for topic in self._positions.keys() - layouts.keys()}
        absent = {topic for topic, listing in missing.items() if not listing.is_there}
        self._deleted = sorted(absent & self._absent)  # absent twice: a restarted broker may lack some topics at first
        self._absent = absent
        self._missing = [listing.hidden for listing in missing.values() if listing.hidden is not None]
        self._layouts, self._layouts_at_ms = layouts, now_ms

    def _tailed(self, seen: LogObservation, troubles: list[Reason]) -> _TailedTopic | None:
        """Returns the topic with its positions. Returns None if the topic cannot be planned in this round, or if its
        tailing cannot begin yet. Adds the reasons of failures to `troubles`."""
        topic = seen.layout.topic
        known = self._positions.get(topic)
        if why := unanswered_reason(seen):
            troubles.append(why)
            self._layouts_at_ms = 0  # another broker may lead now
        if known is None and (why or not seen.ends):
            return None
        try:
            followed = _begin_at_end(seen) if known is None else self._followed(seen, known)
        except KafkaFailure as e:
            troubles.append(e.reason)
            return None
        if followed is None:
            return None
        tailed_topic = _TailedTopic(seen, followed, None)
        try:
            return tailed_topic._replace(size=self._size(tailed_topic))
        except KafkaFailure as e:
            troubles.append(e.reason)
            return None if known is None else tailed_topic

    def _followed(self, seen: LogObservation, known: Mapping[int, LogPosition]) -> Followed | None:
        """Returns the positions in the observed logs. Returns None if the layout is out of date: the topic was deleted,
        or created again, after the layout was requested."""
        found = follow(seen, known, lambda p, position: self._kafka.divergence(seen, p, position), from_start=False)
        if any(gap.reason == "diverged" for gap in found.gaps.values()):
            now = self._kafka.topics().layouts.get(seen.layout.topic)
            if now is None or now.topic_id != seen.layout.topic_id:
                self._layouts_at_ms = 0
                return None
        return found

    def _size(self, topic: _TailedTopic) -> int | None:
        """Returns the bytes per record, measured in the partition with the largest lag; None if no partition
        answered."""
        positions, ends = topic.followed.positions, topic.seen.ends
        if not ends:
            return None
        p = max(ends, key=lambda p: ends[p] - positions[p].next_offset)
        offset = max(positions[p].next_offset, topic.seen.starts[p])
        return self._sizes.of(topic.seen.layout, p, offset, is_news=ends[p] > offset)

    def _ends_of_deleted(self) -> list[TopicRange]:
        deleted, self._deleted = self._deleted, []
        return [
            TopicRange(topic, end_of(p, position, _NO_TOPIC, self._layouts_at_ms, None))
            for topic in deleted
            for p, position in self._positions.pop(topic, {}).items()
        ]


def _begin_at_end(seen: LogObservation) -> Followed:
    """Returns the first positions of a topic that is tailed from now on. These are the ends of its logs, so that older
    records do not count."""
    topic_id = seen.layout.topic_id
    return Followed({p: LogPosition(topic_id, 0, end, -1, end) for p, end in seen.ends.items()}, {}, {})


def _observation(layout: TopicLayout, found: Mapping[Place, Ends], asked_at_ms: int) -> LogObservation:
    here = {p: found[layout.topic, p] for p in layout.leaders}
    answered = {p: ends for p, ends in here.items() if not ends.error}
    return LogObservation(
        layout,
        asked_at_ms,
        {p: ends.log_start for p, ends in answered.items()},
        {p: ends.high_watermark for p, ends in answered.items()},
        {p: ends.error for p, ends in here.items() if ends.error},
    )

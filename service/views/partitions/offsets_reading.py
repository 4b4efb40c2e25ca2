"""Reads a partition's log from its leader until the outcome of the requested offsets is known, or a bound is
reached."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from service.domain.partitions.facts import PartitionEnds
from service.domain.partitions.offset_spans import SpanBuilder
from service.domain.reasons.unread import DESCRIBE, READ
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.cluster import TopicLayout, topic_layout
from service.kafka.errors import KafkaRefused, KafkaUnavailable
from service.kafka.fetch import Fetched, PartitionFetch, fetch_many
from service.kafka.offsets import EARLIEST, LATEST, list_offsets
from service.kafka.producers import describe_producers
from service.partition_log import walk_through

MOST_BYTES: Final = 64 << 20
MOST_S: Final = 5.0
FIRST_BYTES: Final = 1 << 20
"""Size (bytes) of the first fetch. It is smaller than NEXT_BYTES, because most markers follow closely after their
records."""
NEXT_BYTES: Final = 8 << 20


class NoSuchPartition(LookupError):
    """The topic or the partition does not exist. The message is for people."""


class NoSuchOffset(LookupError):
    """The log ends before the offset. The message is for people."""


class Bounds(NamedTuple):
    """The bounds of one explanation. The bounds are checked between two fetches; a fetch that has begun is never cut
    short."""

    bytes: int = MOST_BYTES
    seconds: float = MOST_S
    first_bytes: int = FIRST_BYTES
    next_bytes: int = NEXT_BYTES


BOUNDS: Final = Bounds()
BOUNDS_OF_HEAD: Final = Bounds(bytes=FIRST_BYTES, seconds=1.0)


def find(client: KafkaClient, topic: str, partition: int, offset: int) -> PartitionEnds:
    """Returns the partition with its leader and the offsets of its log.

    Raises NoSuchPartition, NoSuchOffset, KafkaUnavailable, KafkaRefused.
    """
    layout = topic_layout(client, topic)
    if layout is None:
        raise NoSuchPartition(f"the cluster has no topic {topic!r}")
    leader = layout.leaders.get(partition)
    if leader is None:
        count = len(layout.leaders)
        has = "partition 0" if count == 1 else f"partitions 0 to {count - 1}"
        raise NoSuchPartition(f"topic {topic!r} has no partition {partition}, only {has}")
    if leader.node < 0:
        raise KafkaUnavailable(f"{topic}-{partition} has no leader now")
    alone = TopicLayout(topic, layout.topic_id, {partition: leader})
    log_start, high_watermark = (_offset(client, alone, partition, which) for which in (EARLIEST, LATEST))
    if offset >= high_watermark:
        raise NoSuchOffset(f"{topic}-{partition} has no offset {offset} yet: its log ends at {high_watermark}")
    return PartitionEnds(
        topic, partition, layout.topic_id, leader.node, leader.epoch, log_start, high_watermark=high_watermark
    )


def read(client: KafkaClient, place: PartitionEnds, walk: SpanBuilder, bounds: Bounds = BOUNDS) -> int | None:
    """Reads from offset `walk.next` on, and adds the batches to the walk. Returns None if the spans cover all offsets
    of the walk. Otherwise returns the offset at which the spans end, because a bound was reached or bytes were
    unreadable. If a run of aborted records ends there, `walk.only_aborted` has the run. Raises KafkaUnavailable,
    KafkaRefused."""
    began, left, size, was_asked = time.monotonic(), bounds.bytes, bounds.first_bytes, False
    wanted_to = walk.to
    walk.add_gap(place.log_start)
    position = max(walk.next, place.log_start)
    high_watermark, last_stable_offset = place.high_watermark, -1
    while not walk.is_done and position < high_watermark:
        if left <= 0 or time.monotonic() - began >= bounds.seconds:
            return _stop(walk, wanted_to, position, last_stable_offset)
        if walk.next >= walk.to and not was_asked and last_stable_offset >= 0:
            was_asked = True
            _settle(client, place, walk)
            continue
        found = _fetch(client, place, position, min(size, max(left, 1)))
        if last_stable_offset < 0:
            walk.note_last_stable_offset(found.last_stable_offset, found.high_watermark)
        high_watermark, last_stable_offset = found.high_watermark, found.last_stable_offset
        left, size = left - len(found.records), bounds.next_bytes
        behind = walk_through(walk, found.records, position)
        if behind is None:
            return _stop(walk, wanted_to, max(position, walk.next), last_stable_offset)
        if behind <= position:  # only offsets without batches are left
            position = high_watermark
        position = max(position, behind)
    walk.finish(high_watermark, last_stable_offset, is_whole=True)
    return walk.to if walk.to < wanted_to else None


def _stop(walk: SpanBuilder, wanted_to: int, position: int, last_stable_offset: int) -> int | None:
    was_done, to = walk.has_all_spans, walk.to
    walk.finish(position, last_stable_offset, is_whole=False)
    if was_done:
        return to if to < wanted_to else None
    return position


def _settle(client: KafkaClient, place: PartitionEnds, walk: SpanBuilder) -> None:
    """Marks as open the transactions that the leader reports as open (DescribeProducers): the rest of the log has no
    marker for these transactions.

    Without permission for that request, nothing is marked, and the rest of the log has to be read.
    """
    try:
        answer = describe_producers(client, place.leader, {place.topic: [place.partition]})
    except KafkaRefused:
        return
    for producer in answer[place.topic, place.partition].producers:
        begin = walk.waiting.get(producer.producer_id)
        if begin is not None and 0 <= producer.transaction_start_offset <= begin:
            walk.mark_open(producer.producer_id)


def _fetch(client: KafkaClient, place: PartitionEnds, offset: int, max_bytes: int) -> Fetched:
    wanted = PartitionFetch(place.partition, offset, place.leader_epoch, max_bytes)
    (found,) = fetch_many(client, place.leader, {place.topic: [wanted]}, max_bytes, 0)
    errors.raise_for(
        found.error, place.topic, (READ,), f"Fetch from {place.topic}-{place.partition} at offset {offset}"
    )
    return found


def _offset(client: KafkaClient, layout: TopicLayout, partition: int, which: int) -> int:
    answer = list_offsets(client, layout, which)
    error = answer.errors.get(partition)
    if error is not None:
        errors.raise_for(error, layout.topic, (DESCRIBE, READ), f"offsets of {layout.topic}-{partition}")
    return answer.found[partition]

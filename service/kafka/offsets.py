"""Reads offsets of partitions from their leaders: the start and the end of the log, the first offset at or after a
time, and the end of a leader epoch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest

from service.domain.reasons.unread import DESCRIBE
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.cluster import Leader, TopicLayout

EARLIEST: Final = -2  # the start of the log
LATEST: Final = -1  # the end of the log: the high watermark (read uncommitted)
TIMEOUT_MS: Final = 3_000
"""Time (ms) to wait for all leaders together: a frozen leader must not delay the answers of the others."""

_CONSUMER, _DEBUGGING = -1, -2  # replica ids (ListOffsetsRequest.java)
_BY_NAME = 9  # later versions are not needed


@dataclass(frozen=True, slots=True)
class Offsets:
    """`found`: a mapping from partition to offset. `errors`: a mapping from partition to error code, for the partitions
    without an offset.

    For a partition with an error, the broker returns offset -1; this offset never appears in `found`.
    """

    found: dict[int, int]
    errors: dict[int, int]


def list_offsets(client: KafkaClient, layout: TopicLayout, which: int, *, unreplicated: bool = False) -> Offsets:
    """Returns the offset `which` (EARLIEST or LATEST) of every partition of the layout, by ListOffsets; asks all
    leaders at the same time.

    Requests carry the leader epoch, so a broker that no longer leads returns an error for the partition. So does a
    leader that is asked for the high watermark and does not know it yet (Partition.fetchOffsetForTimestamp). Raises
    KafkaRefused if any leader refuses the whole request; KafkaUnavailable if a leader does not answer and no other
    leader returns an offset.

    If `unreplicated` is True, LATEST means the log end offset, which may be above the high watermark. Kafka returns
    this offset if the request names a debugging replica (ReplicaManager.fetchOffset).
    """
    found: dict[int, int] = {}
    refused: dict[int, int] = {}
    unavailable: errors.KafkaUnavailable | None = None
    by_leader: dict[int, dict[int, Leader]] = defaultdict(dict)
    for p, leader in layout.leaders.items():
        by_leader[leader.node][p] = leader
    requests = {}
    for node, led in by_leader.items():
        if node < 0:
            refused |= dict.fromkeys(led, errors.LEADER_NOT_AVAILABLE)
            continue
        requests[node] = [_request(layout.topic, led, which, _DEBUGGING if unreplicated else _CONSUMER)]
    for node, answers in client.ask_all(requests, TIMEOUT_MS).items():
        if isinstance(answers, errors.KafkaUnavailable):
            unavailable = answers
            refused |= dict.fromkeys(by_leader[node], errors.LEADER_NOT_AVAILABLE)
            continue
        if isinstance(answers, errors.KafkaFailure):
            raise answers
        for partition in answers[0].topics[0].partitions:
            if partition.error_code:
                refused[partition.partition_index] = partition.error_code
            else:
                found[partition.partition_index] = partition.offset
    if unavailable is not None and not found:
        raise unavailable
    return Offsets(found, refused)


def _request(topic: str, led: Mapping[int, Leader], which: int, replica: int) -> Any:
    of_topic = ListOffsetsRequest.ListOffsetsTopic
    wanted = [
        of_topic.ListOffsetsPartition(partition_index=p, current_leader_epoch=leader.epoch, timestamp=which)
        for p, leader in led.items()
    ]
    topics = [of_topic(name=topic, partitions=wanted)]
    return ListOffsetsRequest(replica_id=replica, isolation_level=0, topics=topics, max_version=_BY_NAME)


def offset_at_time(client: KafkaClient, topic: str, partition: int, leader: Leader, timestamp_ms: int) -> int | None:
    """Returns the offset of the first record with a timestamp of `timestamp_ms` or later; None if there is none below
    the high watermark. Timestamps are by the producers' clocks (or the broker's append time, as the topic is
    configured).

    Needs DESCRIBE on the topic. Raises KafkaUnavailable or KafkaRefused.
    """
    since_ms = max(timestamp_ms, 0)  # Kafka reserves numbers below 0: -1 the end, -2 the start
    request = _request(topic, {partition: leader}, since_ms, _CONSUMER)
    answer = client.ask(request, leader.node).topics[0].partitions[0]
    errors.raise_for(
        answer.error_code, topic, (DESCRIBE,), f"offset of {topic}-{partition} at timestamp {timestamp_ms}"
    )
    return None if answer.offset < 0 else int(answer.offset)


def epoch_end_offset(client: KafkaClient, topic: str, partition: int, leader: Leader, epoch: int) -> int | None:
    """Returns the end offset of the records written in `epoch`. If no such records are left, returns the end offset of
    the last earlier epoch with records; None if there is no such epoch.

    If a reader has read beyond the returned offset, the log has diverged there (KIP-101, KIP-320). Raises
    KafkaUnavailable or KafkaRefused.
    """
    wanted = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    request = OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[
            wanted(
                topic=topic,
                partitions=[
                    wanted.OffsetForLeaderPartition(
                        partition=partition, current_leader_epoch=leader.epoch, leader_epoch=epoch
                    )
                ],
            )
        ],
    )
    answer = client.ask(request, leader.node).topics[0].partitions[0]
    errors.raise_for(
        answer.error_code, topic, (DESCRIBE,), f"end offset of leader epoch {epoch} of {topic}-{partition}"
    )
    return None if answer.end_offset < 0 else int(answer.end_offset)

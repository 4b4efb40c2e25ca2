"""Where a log begins and ends, asked of the leaders of its partitions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest

from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.metadata import Leader, TopicLayout

EARLIEST: Final = -2  # the log's start
LATEST: Final = -1  # its end: the high watermark (read uncommitted)
TIMEOUT_MS: Final = 3_000
"""How long all leaders together are waited for: one that is frozen must not hold up what the others tell."""

_CONSUMER, _DEBUGGING = -1, -2  # replica ids (ListOffsetsRequest.java)
_BY_NAME = 9  # versions above are not needed; this one exists since Kafka 3.7's predecessors


@dataclass(frozen=True, slots=True)
class Offsets:
    """Answers per partition, and the error code of those that did not answer with a number.

    A refusing broker answers offset -1: a partition with an error never appears in `found`.
    """

    found: dict[int, int]
    errors: dict[int, int]


def list_offsets(client: KafkaClient, layout: TopicLayout, which: int, *, unreplicated: bool = False) -> Offsets:
    """ListOffsets for every partition of the layout; one request per leader, all at once.

    The leader epoch is sent along: a broker that no longer leads, or a leader whose high watermark is not known yet,
    refuses (PART.fetchOffsetForTimestamp). Raises KafkaUnavailable when no leader at all answers.

    `unreplicated`: LATEST is the log's very end then, with what waits for replicas (a debugging replica is told it,
    ReplicaManager.fetchOffset).
    """
    topic = ListOffsetsRequest.ListOffsetsTopic
    partition = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
    found: dict[int, int] = {}
    refused: dict[int, int] = {}
    silence: errors.KafkaUnavailable | None = None
    by_leader = _by_leader(layout)
    requests = {}
    for node, led in by_leader.items():
        if node < 0:
            refused |= dict.fromkeys(led, errors.LEADER_NOT_AVAILABLE)
            continue
        wanted = [
            partition(partition_index=p, current_leader_epoch=leader.epoch, timestamp=which)
            for p, leader in led.items()
        ]
        requests[node] = [
            ListOffsetsRequest(
                replica_id=_DEBUGGING if unreplicated else _CONSUMER,
                isolation_level=0,
                topics=[topic(name=layout.topic, partitions=wanted)],
                max_version=_BY_NAME,
            )
        ]
    for node, answers in client.ask_all(requests, TIMEOUT_MS).items():
        if isinstance(answers, errors.KafkaUnavailable):
            silence = answers
            refused |= dict.fromkeys(by_leader[node], errors.LEADER_NOT_AVAILABLE)
            continue
        if isinstance(answers, errors.KafkaFailure):
            raise answers
        for one in answers[0].topics[0].partitions:
            if one.error_code:
                refused[one.partition_index] = one.error_code
            else:
                found[one.partition_index] = one.offset
    if silence is not None and not found:
        raise silence
    return Offsets(found, refused)


def offset_at_time(client: KafkaClient, topic: str, partition: int, leader: Leader, timestamp_ms: int) -> int | None:
    """The first offset whose record's timestamp is not before `timestamp_ms`; None: there is none below the high
    watermark. Timestamps are the producers' clocks (or the broker's append time, as the topic is configured).

    Needs DESCRIBE on the topic. Raises KafkaUnavailable.
    """
    wanted = ListOffsetsRequest.ListOffsetsTopic
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=[
            wanted(
                name=topic,
                partitions=[
                    wanted.ListOffsetsPartition(
                        partition_index=partition,
                        current_leader_epoch=leader.epoch,
                        timestamp=max(timestamp_ms, 0),  # below are Kafka's own words: -1 the end, -2 the start
                    )
                ],
            )
        ],
        max_version=_BY_NAME,
    )
    answer = client.ask(request, leader.node).topics[0].partitions[0]
    if answer.error_code:
        raise errors.KafkaUnavailable(f"offset at {timestamp_ms} of {topic}-{partition}: error {answer.error_code}")
    return None if answer.offset < 0 else int(answer.offset)


def epoch_end_offset(client: KafkaClient, topic: str, partition: int, leader: Leader, epoch: int) -> int | None:
    """Where the log's part written in `epoch` (or the last one before it) ends; None if nothing of it is left.

    An end below what was read means that the log diverged there (KIP-101, KIP-320). Raises KafkaUnavailable.
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
    if answer.error_code:
        raise errors.KafkaUnavailable(f"end of epoch {epoch} of {topic}-{partition}: error {answer.error_code}")
    return None if answer.end_offset < 0 else int(answer.end_offset)


def _by_leader(layout: TopicLayout) -> dict[int, dict[int, Leader]]:
    led: dict[int, dict[int, Leader]] = defaultdict(dict)
    for p, leader in layout.leaders.items():
        led[leader.node][p] = leader
    return led

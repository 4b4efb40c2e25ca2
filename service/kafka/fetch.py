"""Fetches the bytes of record batches exactly as they lie in the log, many partitions of one leader at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka.protocol.consumer import FetchRequest

from service.domain.error_codes import error_text
from service.domain.reasons.unread import READ
from service.kafka import errors
from service.kafka.client import REQUEST_TIMEOUT_MS, KafkaClient
from service.kafka.cluster import Leader
from service.kafka.errors import KafkaUnavailable, PartitionUnavailable

_BY_NAME = 12  # the last Fetch version with topic names; later versions have topic ids
_PIECE_TIMEOUT_MS = 3_000


@dataclass(frozen=True, slots=True)
class PartitionFetch:
    """A request to read `partition` from `offset`. A broker that is not the leader any more refuses the request,
    because of `leader_epoch` (-1: the broker does not check the epoch)."""

    partition: int
    offset: int
    leader_epoch: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """The answer for one partition. `records` may begin before the wanted offset and end in the middle of a batch.
    Kafka returns the LSO under either isolation level.

    With an error the numbers are meaningless (-1): use none of them.
    """

    topic: str
    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start: int
    records: bytes


def fetch_piece(
    client: KafkaClient, topic: str, leader: Leader, partition: int, offset: int, size: int
) -> bytes | None:
    """Returns the bytes of the log from `offset` on, without waiting for more; None if the offset lies outside the log.
    Needs READ on the topic. Raises KafkaUnavailable or KafkaRefused."""
    wanted = PartitionFetch(partition, offset, leader.epoch, size)
    (answer,) = fetch_many(client, leader.node, {topic: [wanted]}, size, 0, _PIECE_TIMEOUT_MS)
    if answer.error == errors.OFFSET_OUT_OF_RANGE:
        return None
    errors.raise_for(answer.error, topic, (READ,), f"Fetch from {topic}-{partition}", PartitionUnavailable)
    return answer.records


def fetch_many(
    client: KafkaClient,
    node: int,
    wanted: Mapping[str, Sequence[PartitionFetch]],
    max_bytes: int,
    max_wait_ms: int,
    timeout_ms: int = REQUEST_TIMEOUT_MS,
    *,
    is_committed: bool = False,
) -> list[Fetched]:
    """Sends one Fetch, with read_uncommitted unless `is_committed`, and returns the answers for the partitions. Needs
    READ on the topics. Raises KafkaUnavailable or KafkaRefused.

    Only the first non-empty partition may exceed its `max_bytes`. If the first batch of any other partition does not
    fit, the partition is returned empty, without an error. So callers rotate the order."""
    of_topic = FetchRequest.FetchTopic
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=int(is_committed),
        session_id=0,
        session_epoch=-1,
        rack_id="",
        forgotten_topics_data=[],
        max_version=_BY_NAME,
        topics=[
            of_topic(
                topic=topic,
                partitions=[
                    of_topic.FetchPartition(
                        partition=w.partition,
                        current_leader_epoch=w.leader_epoch,
                        fetch_offset=w.offset,
                        last_fetched_epoch=-1,
                        log_start_offset=-1,
                        partition_max_bytes=w.max_bytes,
                    )
                    for w in of_this
                ],
            )
            for topic, of_this in wanted.items()
        ],
    )
    response = client.ask(request, node, timeout_ms)
    if response.error_code:
        raise KafkaUnavailable(f"Fetch from broker {node}: {error_text(response.error_code)}")
    return [
        Fetched(
            answered.topic,
            p.partition_index,
            p.error_code,
            p.high_watermark,
            p.last_stable_offset,
            p.log_start_offset,
            p.records or b"",
        )
        for answered in response.responses
        for p in answered.partitions
    ]

"""Reads start offsets and isolation levels of share groups (KIP-932).

| field of DescribeShareGroupOffsets | request v0, v1   | answer v0, v1           |
|------------------------------------|------------------|-------------------------|
| throttle time                      |                  | int32                   |
| groups                             | array            | array                   |
| . group                            | string           | string                  |
| . topics                           | nullable array   | array                   |
| .. topic, its id                   |                  | string, uuid            |
| .. partitions                      |                  | array                   |
| ... partition                      |                  | int32                   |
| ... start offset, leader epoch     |                  | int64, int32            |
| ... lag (only v1)                  |                  | int64                   |
| ... error, its message             |                  | int16, string           |
| . error, its message               |                  | int16, string           |

Arrays and strings are compact, and each struct ends with tagged fields. Source: DescribeShareGroupOffsetsRequest.json,
DescribeShareGroupOffsetsResponse.json, Kafka 4.1 to 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kafka.protocol.admin import DescribeConfigsRequest

from service.domain.partitions.facts import TopicPartition
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaUnavailable
from service.kafka.group_descriptions import read_array, read_text, skip_tags, text_bytes, uvarint
from service.kafka.raw import RawRequest
from service.wire.cursor import Cursor
from service.wire.errors import DecodeError, MalformedValue

DESCRIBE_SHARE_GROUP_OFFSETS: Final = 90
PROTOCOL_TYPE: Final = "share"
"""Protocol type of share groups in ListGroups."""

_NEWEST: Final = 1
_GROUP: Final = 32  # ConfigResource.Type
_ISOLATION: Final = "share.isolation.level"


class ShareOffset(NamedTuple):
    """A share group's offsets of a partition. `start`: the first offset that may still be delivered, as it is stored
    (stored offsets lag behind; -1: none yet). `lag`: the number of offsets from there to the high watermark whose
    delivery is not complete; -1 if the broker does not report it (before Kafka 4.2)."""

    start: int
    lag: int


class ShareGroupOffsets(NamedTuple):
    """The offsets of a share group; empty with an error of the group. None: the offset could not be read."""

    error: int
    offsets: Mapping[TopicPartition, ShareOffset | None]


def reports_offsets(client: KafkaClient) -> bool:
    """Returns whether the brokers report offsets of share groups: Kafka 4.1 and later do."""
    return client.version_of(DESCRIBE_SHARE_GROUP_OFFSETS) >= 0


def share_offsets(client: KafkaClient, node: int, groups: Sequence[str]) -> dict[str, ShareGroupOffsets]:
    """Returns the offsets of share groups that `node` coordinates, on all partitions that they have read. Needs
    DESCRIBE on the groups, and on the topics. Raises KafkaUnavailable (also for an answer that cannot be decoded) or
    KafkaRefused."""
    if not groups:
        return {}
    version = min(client.version_of(DESCRIBE_SHARE_GROUP_OFFSETS), _NEWEST)
    # of each group all topics, and no tagged fields
    body = uvarint(len(groups) + 1) + b"".join(text_bytes(group) + b"\0\0" for group in groups) + b"\0"
    answer = client.ask(RawRequest(DESCRIBE_SHARE_GROUP_OFFSETS, version, body, is_flexible=True), node).body
    read = Cursor(answer, MalformedValue)
    try:
        read.skip(4)  # throttle time
        return dict(read_array(read, lambda of: _read_group(of, version)))
    except DecodeError as e:
        raise KafkaUnavailable(f"share groups of broker {node}: {e}") from e


def isolation_levels(client: KafkaClient, node: int, groups: Sequence[str]) -> dict[str, str | None]:
    """Returns the isolation level of each share group. None: not reported (no DESCRIBE_CONFIGS on the group). Any
    broker can answer. Raises KafkaUnavailable or KafkaRefused."""
    found: dict[str, str | None] = dict.fromkeys(groups)
    if not groups:
        return found
    of_group = DescribeConfigsRequest.DescribeConfigsResource
    resources = [
        of_group(resource_type=_GROUP, resource_name=group, configuration_keys=[_ISOLATION]) for group in groups
    ]
    for one in client.ask(DescribeConfigsRequest(resources=resources, include_synonyms=False), node).results:
        level = next((config.value for config in one.configs or () if config.name == _ISOLATION), None)
        found[one.resource_name] = None if one.error_code else level
    return found


def _read_group(read: Cursor, version: int) -> tuple[str, ShareGroupOffsets]:
    name = read_text(read)
    by_topic = read_array(read, lambda of: _read_topic(of, version))
    error = read.int16()
    read_text(read)
    skip_tags(read)
    offsets = {} if error else {place: offset for topic in by_topic for place, offset in topic.items()}
    return name, ShareGroupOffsets(error, offsets)


def _read_topic(read: Cursor, version: int) -> dict[TopicPartition, ShareOffset | None]:
    topic = read_text(read)
    read.skip(16)  # topic id
    partitions = read_array(read, lambda of: _read_partition(of, version))
    skip_tags(read)
    return {(topic, partition): offset if error == errors.NONE else None for partition, error, offset in partitions}


def _read_partition(read: Cursor, version: int) -> tuple[int, int, ShareOffset]:
    partition, start = read.int32(), read.int64()
    read.skip(4)  # leader epoch
    lag = read.int64() if version > 0 else -1
    error = read.int16()
    read_text(read)
    skip_tags(read)
    return partition, error, ShareOffset(start, lag)

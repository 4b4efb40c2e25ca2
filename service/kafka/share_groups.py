"""Reads start offsets and isolation levels of share groups (KIP-932)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from service.domain.partitions.facts import TopicPartition
from service.kafka.client import KafkaClient
from service.kafka.cluster import configs_request
from service.kafka.errors import KafkaUnavailable
from service.kafka.raw import MissingMessages

_OFFSETS: Final = MissingMessages("DescribeShareGroupOffsets")
PROTOCOL_TYPE: Final = "share"
"""Protocol type of share groups in ListGroups."""

_NEWEST: Final = 1
_GROUP: Final = 32  # ConfigResource.Type
_ISOLATION: Final = "share.isolation.level"


class ShareOffset(NamedTuple):
    """A share group's offsets of a partition. `start`: the first offset that may still be delivered, as stored by the
    broker; -1 if no offset is stored yet. The stored offset lags behind the real one. `lag`: the number of offsets from
    `start` to the high watermark whose delivery is not complete; -1 if the broker does not report it (before Kafka
    4.2)."""

    start: int
    lag: int


class ShareGroupOffsets(NamedTuple):
    """The offsets of a share group. `offsets`: a mapping from partition to the group's offset there (None: it could not
    be read); empty if `error` is not 0."""

    error: int
    offsets: Mapping[TopicPartition, ShareOffset | None]


def reports_offsets(client: KafkaClient) -> bool:
    """Returns whether the brokers report offsets of share groups: Kafka 4.1 and later do."""
    return client.version_of(_OFFSETS.api_key) >= 0


def share_offsets(client: KafkaClient, node: int, groups: Sequence[str]) -> dict[str, ShareGroupOffsets]:
    """Returns the offsets of share groups that `node` coordinates, on all partitions that these groups have read. Needs
    DESCRIBE on the groups, and on the topics. Raises KafkaUnavailable (also for an answer that cannot be decoded) or
    KafkaRefused."""
    if not groups:
        return {}
    version = min(client.version_of(_OFFSETS.api_key), _NEWEST)
    of_group = _OFFSETS.request.DescribeShareGroupOffsetsRequestGroup
    wanted = [of_group(group_id=group, topics=None) for group in groups]  # all topics
    found = _OFFSETS.ask(client, node, version, _read, groups=wanted)
    if found is None:
        raise KafkaUnavailable(f"the answer of broker {node} about share groups cannot be decoded")
    return found


def isolation_levels(client: KafkaClient, node: int, groups: Sequence[str]) -> dict[str, str | None]:
    """Returns the isolation level of each share group, None where the broker does not report it (no DESCRIBE_CONFIGS on
    the group). Any broker can answer. Raises KafkaUnavailable or KafkaRefused."""
    found: dict[str, str | None] = dict.fromkeys(groups)
    if not groups:
        return found
    for result in client.ask(configs_request(_GROUP, groups, [_ISOLATION]), node).results:
        level = next((config.value for config in result.configs or () if config.name == _ISOLATION), None)
        found[result.resource_name] = None if result.error_code else level
    return found


def _read(answer: Any) -> dict[str, ShareGroupOffsets]:
    return {group.group_id: ShareGroupOffsets(group.error_code, _offsets(group)) for group in answer.groups}


def _offsets(group: Any) -> dict[TopicPartition, ShareOffset | None]:
    if group.error_code:
        return {}
    return {
        (topic.topic_name, partition.partition_index): None
        if partition.error_code
        else ShareOffset(partition.start_offset, partition.lag)
        for topic in group.topics
        for partition in topic.partitions
    }

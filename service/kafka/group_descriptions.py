"""Reads the members of groups, and the partitions that are assigned to them, of each kind of group.

The library has classes only for groups of the classic protocol. The answers about the newer kinds are decoded here:

| field              | ConsumerGroupDescribe v0 | ShareGroupDescribe v1 | StreamsGroupDescribe v0    |
|--------------------|--------------------------|-----------------------|----------------------------|
| throttle time      | int32                    | int32                 | int32                      |
| groups             | array                    | array                 | array                      |
| . error            | int16                    | int16                 | int16                      |
| . message, id, state | 3 strings              | 3 strings             | 3 strings                  |
| . group epoch, assignment epoch | 2 int32     | 2 int32               | 2 int32                    |
| . next field       | assignor: string         | assignor: string      | topology: nullable struct  |
| . members          | array                    | array                 | array                      |
| . allowed operations | int32                  | int32                 | int32                      |

All arrays and strings are compact, and each struct ends with tagged fields. A member of a streams group has tasks. Each
task is a subtopology and numbers of partitions, which apply to every topic that the subtopology reads.

Source: ConsumerGroupDescribeResponse.json, ShareGroupDescribeResponse.json, StreamsGroupDescribeResponse.json,
ConsumerProtocolAssignment.json, Kafka 4.1 to 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from kafka.protocol.admin import DescribeGroupsRequest

from service.domain.partitions.facts import TopicPartition
from service.kafka.client import KafkaClient
from service.kafka.raw import RawRequest
from service.wire.cursor import Cursor
from service.wire.errors import DecodeError, MalformedValue

CONSUMER_GROUP_DESCRIBE: Final = 69
SHARE_GROUP_DESCRIBE: Final = 77
STREAMS_GROUP_DESCRIBE: Final = 89

_CONSUMER: Final = "consumer"  # protocol type; members of others, such as Connect's, assign something else
_SHARE_VERSION: Final = 1  # version 0 was early access in Kafka 4.0

log = logging.getLogger(__name__)

T = TypeVar("T")


class GroupMembers(NamedTuple):
    """The number of a group's members, and the partitions that are assigned to them."""

    number: int
    assigned: frozenset[TopicPartition]


def describe_groups(client: KafkaClient, node: int, groups: Sequence[str]) -> dict[str, GroupMembers | None]:
    """Returns the members of groups that `node` coordinates. None: `node` does not report them (it is not the
    coordinator, there is no such group, no DESCRIBE on it, a share group). Raises KafkaUnavailable or KafkaRefused.
    """
    found: dict[str, GroupMembers | None] = dict.fromkeys(groups)
    if not groups:
        return found
    for one in client.ask(DescribeGroupsRequest(groups=list(groups), include_authorized_operations=False), node).groups:
        if not one.error_code and one.group_state != "Dead":  # a group of another kind is reported as "Dead", too
            of_consumers = one.members if one.protocol_type == _CONSUMER else ()
            assigned = {place for member in of_consumers for place in _classic_assignment(member.member_assignment)}
            found[one.group_id] = GroupMembers(len(one.members), frozenset(assigned))
    for api_key, read_group in ((CONSUMER_GROUP_DESCRIBE, _read_group), (STREAMS_GROUP_DESCRIBE, _read_streams_group)):
        missing = [group for group, one in found.items() if one is None]
        if missing and client.version_of(api_key) >= 0:
            found |= _described(client, node, missing, api_key, 0, read_group)
    return found


def describe_share_groups(client: KafkaClient, node: int, groups: Sequence[str]) -> dict[str, GroupMembers | None]:
    """As `describe_groups`, for share groups (KIP-932)."""
    found: dict[str, GroupMembers | None] = dict.fromkeys(groups)
    if groups and client.version_of(SHARE_GROUP_DESCRIBE) >= _SHARE_VERSION:
        found |= _described(client, node, groups, SHARE_GROUP_DESCRIBE, _SHARE_VERSION, _read_share_group)
    return found


def group_names(groups: Sequence[str]) -> bytes:
    """Returns a compact array of strings."""
    return b"".join([uvarint(len(groups) + 1), *(text_bytes(group) for group in groups)])


def text_bytes(text: str) -> bytes:
    """Returns a compact string."""
    name = text.encode()
    return uvarint(len(name) + 1) + name


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_text(read: Cursor) -> str:
    """Reads a compact string; a null one as an empty one."""
    return read.take(max(read.uvarint() - 1, 0)).decode(errors="replace")


def read_array(read: Cursor, read_one: Callable[[Cursor], T]) -> list[T]:
    """Reads a compact array; a null one as an empty one."""
    return [read_one(read) for _ in range(max(read.uvarint() - 1, 0))]


def skip_tags(read: Cursor) -> None:
    for _ in range(read.uvarint()):
        read.uvarint()
        read.skip(read.uvarint())


_Members = tuple[str, GroupMembers | None]


def _described(
    client: KafkaClient,
    node: int,
    groups: Sequence[str],
    api_key: int,
    version: int,
    read_group: Callable[[Cursor], _Members],
) -> dict[str, GroupMembers | None]:
    """Returns the groups of the answer; none if it cannot be decoded."""
    # no authorized operations, no tagged fields
    body = group_names(groups) + b"\0\0"
    answer = client.ask(RawRequest(api_key, version, body, is_flexible=True), node).body
    read = Cursor(answer, MalformedValue)
    try:
        read.skip(4)  # throttle time
        return {group: one for group, one in read_array(read, read_group) if group in groups}
    except DecodeError as e:
        log.debug("broker %d: its answer to API %d cannot be decoded: %s", node, api_key, e)
        return {}


def _read_group(read: Cursor) -> _Members:
    return _group(read, read_text, lambda of, _: _read_member(of))


def _read_share_group(read: Cursor) -> _Members:
    return _group(read, read_text, lambda of, _: _read_share_member(of))


def _read_streams_group(read: Cursor) -> _Members:
    return _group(read, _read_topology, _read_streams_member)


def _group(
    read: Cursor, read_next: Callable[[Cursor], T], read_member: Callable[[Cursor, T], list[TopicPartition]]
) -> _Members:
    error = read.int16()
    read_text(read)  # message
    name = read_text(read)
    read_text(read)  # state
    read.skip(8)  # epochs of group and assignment
    context = read_next(read)
    assignments = read_array(read, lambda of: read_member(of, context))
    read.skip(4)  # authorized operations
    skip_tags(read)
    if error:
        return name, None
    return name, GroupMembers(len(assignments), frozenset(place for some in assignments for place in some))


def _read_member(read: Cursor) -> list[TopicPartition]:
    for _ in range(3):  # member, instance, rack
        read_text(read)
    read.skip(4)  # epoch
    read_text(read)  # client
    read_text(read)  # host
    read_array(read, read_text)  # subscribed topics
    read_text(read)  # subscribed pattern
    assigned = _read_assignment(read)
    _read_assignment(read)  # target assignment
    skip_tags(read)
    return assigned


def _read_share_member(read: Cursor) -> list[TopicPartition]:
    read_text(read)  # member
    read_text(read)  # rack
    read.skip(4)  # epoch
    read_text(read)  # client
    read_text(read)  # host
    read_array(read, read_text)  # subscribed topics
    assigned = _read_assignment(read)
    skip_tags(read)
    return assigned


def _read_assignment(read: Cursor) -> list[TopicPartition]:
    by_topic = read_array(read, _read_topic_partitions)
    skip_tags(read)
    return [place for some in by_topic for place in some]


def _read_topic_partitions(read: Cursor) -> list[TopicPartition]:
    read.skip(16)  # topic id
    topic = read_text(read)
    partitions = read_array(read, Cursor.int32)
    skip_tags(read)
    return [(topic, partition) for partition in partitions]


_Topology = Mapping[str, list[str]]
"""The topics that each subtopology reads, by its id."""


def _read_topology(read: Cursor) -> _Topology:
    """Reads a nullable struct; -1 means null."""
    if read.int8() < 0:
        return {}
    read.skip(4)  # epoch
    found = dict(read_array(read, _read_subtopology))
    skip_tags(read)
    return found


def _read_subtopology(read: Cursor) -> tuple[str, list[str]]:
    name = read_text(read)
    topics = read_array(read, read_text)
    read_array(read, read_text)  # repartition sink topics
    read_array(read, _read_topic)  # state changelog topics
    topics += read_array(read, _read_topic)  # repartition source topics
    skip_tags(read)
    return name, topics


def _read_topic(read: Cursor) -> str:
    name = read_text(read)
    read.skip(6)  # partitions, replication factor
    read_array(read, _read_key_value)
    skip_tags(read)
    return name


def _read_key_value(read: Cursor) -> None:
    read_text(read)
    read_text(read)
    skip_tags(read)


def _read_streams_member(read: Cursor, topology: _Topology) -> list[TopicPartition]:
    read_text(read)  # member
    read.skip(4)  # epoch
    for _ in range(4):  # instance, rack, client, host
        read_text(read)
    read.skip(4)  # epoch of the topology
    read_text(read)  # process
    if read.int8() >= 0:  # endpoint
        read_text(read)
        read.skip(2)
        skip_tags(read)
    read_array(read, _read_key_value)  # client tags
    for _ in range(2):  # offsets of tasks, end offsets of tasks
        read_array(read, _read_task_offset)
    active = _read_tasks(read)
    _read_tasks(read)  # target assignment
    read.skip(1)  # uses the classic protocol
    skip_tags(read)
    return [
        (topic, partition)
        for name, partitions in active
        for topic in topology.get(name, ())
        for partition in partitions
    ]


def _read_task_offset(read: Cursor) -> None:
    read_text(read)
    read.skip(12)
    skip_tags(read)


def _read_tasks(read: Cursor) -> list[tuple[str, list[int]]]:
    """Returns the active tasks; standby and warmup tasks read no source topics."""
    active, _, _ = (read_array(read, _read_task) for _ in range(3))
    skip_tags(read)
    return active


def _read_task(read: Cursor) -> tuple[str, list[int]]:
    found = read_text(read), read_array(read, Cursor.int32)
    skip_tags(read)
    return found


def _classic_assignment(data: bytes | None) -> list[TopicPartition]:
    """Decodes a member's assignment (ConsumerProtocolAssignment.json): int16 version, int32 number of topics; for each
    topic its name with an int16 size, int32 number of partitions, and the partitions as int32."""
    if not data:
        return []
    read = Cursor(bytes(data), MalformedValue)
    found: list[TopicPartition] = []
    try:
        read.skip(2)
        for _ in range(read.int32()):
            topic = read.take(read.int16()).decode()
            found += [(topic, read.int32()) for _ in range(read.int32())]
    except (DecodeError, UnicodeDecodeError):
        return []
    return found

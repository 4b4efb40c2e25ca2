"""Counts the members of consumer groups: of the classic protocol, of KIP-848's, and of streams groups (KIP-1071).

The library has no classes for the newer two. Both answers are read only up to the number of members:

| field                              | ConsumerGroupDescribe v0 | StreamsGroupDescribe v0         |
|------------------------------------|--------------------------|---------------------------------|
| throttle time                      | int32                    | int32                           |
| groups                             | compact array            | compact array                   |
| . error, its message, group, state | int16, 3 compact strings | int16, 3 compact strings        |
| . group epoch, assignment epoch    | 2 int32                  | 2 int32                         |
| . behind that                      | assignor: compact string | topology: nullable struct       |
| .. epoch, subtopologies            |                          | int32, nullable compact array   |
| . members                          | compact array            | compact array                   |

Source: ConsumerGroupDescribeResponse.json, StreamsGroupDescribeResponse.json, Kafka 4.1 to 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from kafka.protocol.admin import DescribeGroupsRequest

from service.kafka.client import KafkaClient
from service.kafka.raw import RawRequest
from service.wire.cursor import Cursor
from service.wire.errors import DecodeError, MalformedValue

log = logging.getLogger(__name__)

CONSUMER_GROUP_DESCRIBE: Final = 69
STREAMS_GROUP_DESCRIBE: Final = 89


def members(client: KafkaClient, node: int, groups: Sequence[str]) -> dict[str, int | None]:
    """Returns the number of members of each group that `node` coordinates. None: `node` does not report it (it is not
    the coordinator, there is no such group, no DESCRIBE on it, a share group). Raises KafkaUnavailable or KafkaRefused.
    """
    found: dict[str, int | None] = dict.fromkeys(groups)
    if not groups:
        return found
    for one in client.ask(DescribeGroupsRequest(groups=list(groups), include_authorized_operations=False), node).groups:
        if not one.error_code and one.group_state != "Dead":  # "Dead" is also how a group of another kind is answered
            found[one.group_id] = len(one.members)
    for api_key, skip in _NEWER:
        if client.version_of(api_key) >= 0:
            for group in (g for g, count in found.items() if count is None):
                found[group] = _described(client, node, group, api_key, skip)
    return found


def _described(
    client: KafkaClient, node: int, group: str, api_key: int, skip_to_members: Callable[[Cursor], None]
) -> int | None:
    """Returns the number of members of one group, by version 0 of either request: both have the same fields."""
    name = group.encode()
    # one group (length + 1 in every compact type), no authorized operations, no tagged fields
    body = b"\2" + _uvarint(len(name) + 1) + name + b"\0\0"
    answer = client.ask(RawRequest(api_key, 0, body, is_flexible=True), node).body
    try:
        return _count(Cursor(answer, MalformedValue), skip_to_members)
    except DecodeError as e:
        log.debug("broker %d answers %d for group %s with something else: %s", node, api_key, group, e)
        return None


def _count(read: Cursor, skip_to_members: Callable[[Cursor], None]) -> int | None:
    read.skip(4)  # throttle time
    read.uvarint()  # one group
    if read.int16():
        return None
    for _ in range(3):  # error message, group, state
        _skip_text(read)
    read.skip(8)  # epochs of group and assignment
    skip_to_members(read)
    return read.uvarint() - 1


def _skip_topology(read: Cursor) -> None:
    """Skips a nullable struct; -1 means null."""
    if read.int8() < 0:
        return
    read.skip(4)  # epoch
    _skip_array(read, _skip_subtopology)
    _skip_tags(read)


def _skip_subtopology(read: Cursor) -> None:
    _skip_text(read)  # id
    _skip_array(read, _skip_text)  # source topics
    _skip_array(read, _skip_text)  # repartition sink topics
    _skip_array(read, _skip_topic)  # state changelog topics
    _skip_array(read, _skip_topic)  # repartition source topics
    _skip_tags(read)


def _skip_topic(read: Cursor) -> None:
    _skip_text(read)
    read.skip(6)  # partitions, replication factor
    _skip_array(read, _skip_config)
    _skip_tags(read)


def _skip_config(read: Cursor) -> None:
    _skip_text(read)
    _skip_text(read)
    _skip_tags(read)


def _skip_text(read: Cursor) -> None:
    """Skips a compact string, null or not."""
    read.skip(max(read.uvarint() - 1, 0))


def _skip_array(read: Cursor, skip_one: Callable[[Cursor], None]) -> None:
    """Skips a compact array, null or not."""
    for _ in range(max(read.uvarint() - 1, 0)):
        skip_one(read)


def _skip_tags(read: Cursor) -> None:
    for _ in range(read.uvarint()):
        read.uvarint()
        read.skip(read.uvarint())


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_NEWER: Final = ((CONSUMER_GROUP_DESCRIBE, _skip_text), (STREAMS_GROUP_DESCRIBE, _skip_topology))

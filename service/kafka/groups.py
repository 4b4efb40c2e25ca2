"""Lists consumer groups, finds their coordinators, and reads their committed offsets and numbers of members.

The library has no classes for descriptions of the two newer kinds of groups, KIP-848's and streams groups (KIP-1071).
These answers are read only up to the number of members:

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
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.raw import RawRequest
from service.wire.cursor import Cursor
from service.wire.errors import DecodeError, MalformedValue

UNSTABLE_OFFSET_COMMIT: Final = 88
"""Error code: an open transaction commits an offset of the partition, so the group's consumers wait (KIP-447)."""

_GROUP_KEY = 0  # FindCoordinator: a group, not a transactional id
_BATCHED_COORDINATORS = 4  # the first FindCoordinator version with many keys
_BATCHED_OFFSETS = 8  # the first OffsetFetch version with many groups
_BY_NAME = 9  # the last one with topic names; later ones want topic ids

log = logging.getLogger(__name__)

CONSUMER_GROUP_DESCRIBE: Final = 69
STREAMS_GROUP_DESCRIBE: Final = 89


class ListedGroup(NamedTuple):
    """A consumer group. `state` is in Kafka's words; empty if the broker is older than 2.6."""

    group: str
    protocol_type: str
    state: str


class Committed(NamedTuple):
    """A committed offset. With an error (UNSTABLE_OFFSET_COMMIT), `offset` is -1 and must not be used."""

    offset: int
    error: int


class GroupOffsets(NamedTuple):
    """The `offsets` that a group committed; empty with an error of the group (not the coordinator, no permission)."""

    error: int
    offsets: dict[tuple[str, int], Committed]


def list_groups(client: KafkaClient, node: int) -> list[ListedGroup]:
    """Returns the groups that broker `node` coordinates. Without DESCRIBE on the cluster, Kafka leaves out groups
    without DESCRIBE on the group, and gives no error. Raises KafkaUnavailable (also while the broker loads groups) or
    KafkaRefused.
    """
    answer = client.ask(ListGroupsRequest(states_filter=[], types_filter=[]), node)
    if answer.error_code:
        raise errors.KafkaUnavailable(f"groups of broker {node}: error {answer.error_code}")
    return [ListedGroup(g.group_id, g.protocol_type, g.group_state or "") for g in answer.groups]


def coordinators_of(client: KafkaClient, groups: Sequence[str]) -> dict[str, int]:
    """Returns the coordinating broker of each group. Leaves out groups that have no known coordinator now, or that may
    not be described (DESCRIBE on the group). Raises KafkaUnavailable or KafkaRefused.

    This request makes Kafka create `__consumer_offsets` if it does not exist, so ask only for groups that were listed.
    """
    if not groups:
        return {}
    if client.version_of(FindCoordinatorRequest.API_KEY) < _BATCHED_COORDINATORS:
        asked = (
            FindCoordinatorRequest(key=g, key_type=_GROUP_KEY, max_version=_BATCHED_COORDINATORS - 1) for g in groups
        )
        found = list(zip(groups, (client.ask(request) for request in asked), strict=True))
    else:
        request = FindCoordinatorRequest(
            coordinator_keys=list(groups), key_type=_GROUP_KEY, min_version=_BATCHED_COORDINATORS
        )
        found = [(one.key, one) for one in client.ask(request).coordinators]
    return {group: one.node_id for group, one in found if not one.error_code and one.node_id >= 0}


def committed(
    client: KafkaClient,
    node: int,
    groups: Sequence[str],
    require_stable: bool,
    places: Mapping[str, Collection[tuple[str, int]]] | None = None,
) -> dict[str, GroupOffsets]:
    """Returns the offsets that the groups, all coordinated by `node`, committed: all of them, or only those of the
    partitions that `places` names for a group. Needs DESCRIBE on the groups, and on the topics (others are left out).
    Raises KafkaUnavailable or KafkaRefused.

    `require_stable`: a partition with a commit in an open transaction is answered with UNSTABLE_OFFSET_COMMIT, as the
    consumers of the group see it. A request for all offsets covers only partitions with an earlier commit. A partition
    with nothing but the pending commit appears only if `places` names it.
    """
    if client.version_of(OffsetFetchRequest.API_KEY) < _BATCHED_OFFSETS:
        return {g: _committed_by_one(client, node, g, require_stable, (places or {}).get(g)) for g in groups}
    of_group = OffsetFetchRequest.OffsetFetchRequestGroup
    request = OffsetFetchRequest(
        groups=[of_group(group_id=g, topics=_topics(of_group, (places or {}).get(g))) for g in groups],
        require_stable=require_stable,
        min_version=_BATCHED_OFFSETS,
        max_version=_BY_NAME,
    )
    return {g.group_id: _offsets(g) for g in client.ask(request, node).groups}


def _topics(group: Any, places: Collection[tuple[str, int]] | None) -> list[Any] | None:
    """Returns partitions by topic, in the request class of one group; None asks for all."""
    if places is None:
        return None
    by_topic: dict[str, list[int]] = {}
    for topic, partition in places:
        by_topic.setdefault(topic, []).append(partition)
    return [group.OffsetFetchRequestTopics(name=topic, partition_indexes=of) for topic, of in by_topic.items()]


def _committed_by_one(
    client: KafkaClient, node: int, group: str, require_stable: bool, places: Collection[tuple[str, int]] | None
) -> GroupOffsets:
    """Returns the offsets of one group, with a request of its own: brokers before Kafka 3.0 take only one group at
    once.
    """
    by_topic: dict[str, list[int]] = {}
    for topic, partition in places or ():
        by_topic.setdefault(topic, []).append(partition)
    of_topic = OffsetFetchRequest.OffsetFetchRequestTopic
    topics = [of_topic(name=topic, partition_indexes=of) for topic, of in by_topic.items()]
    request = OffsetFetchRequest(
        group_id=group,
        topics=None if places is None else topics,
        require_stable=require_stable,
        max_version=_BATCHED_OFFSETS - 1,
    )
    return _offsets(client.ask(request, node))


def _offsets(answer: Any) -> GroupOffsets:
    if answer.error_code:
        return GroupOffsets(answer.error_code, {})
    offsets = {
        (topic.name, p.partition_index): Committed(p.committed_offset, p.error_code)
        for topic in answer.topics
        for p in topic.partitions
    }
    return GroupOffsets(errors.NONE, offsets)


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

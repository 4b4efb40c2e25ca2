"""Reads the members of groups of every kind, and the partitions that are assigned to these members."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from service.domain.partitions.facts import TopicPartition
from service.kafka.client import KafkaClient
from service.kafka.raw import MissingMessages

_CONSUMER_GROUPS: Final = MissingMessages("ConsumerGroupDescribe")
_SHARE_GROUPS: Final = MissingMessages("ShareGroupDescribe")
_STREAMS_GROUPS: Final = MissingMessages("StreamsGroupDescribe")

_CONSUMER: Final = "consumer"  # protocol type; members of others, such as Connect's, assign something else
_SHARE_VERSION: Final = 1  # version 0 was early access in Kafka 4.0


class GroupMembers(NamedTuple):
    """The number of a group's members, and the partitions that are assigned to them."""

    number: int
    assigned: frozenset[TopicPartition]


def describe_groups(client: KafkaClient, node: int, groups: Sequence[str]) -> dict[str, GroupMembers | None]:
    """Returns a mapping from group to its members; `node` coordinates the groups. A group gets None if `node` does not
    report it. Possible reasons: another broker coordinates the group, the group does not exist or is a share group, the
    principal has no DESCRIBE on the group, or the answer cannot be decoded. Raises KafkaUnavailable or KafkaRefused."""
    found: dict[str, GroupMembers | None] = dict.fromkeys(groups)
    if not groups:
        return found
    for one in client.ask(DescribeGroupsRequest(groups=list(groups), include_authorized_operations=False), node).groups:
        if not one.error_code and one.group_state != "Dead":  # a group of another kind is reported as "Dead", too
            of_consumers = one.members if one.protocol_type == _CONSUMER else ()
            assigned = {place for member in of_consumers for place in _classic_assignment(member.member_assignment)}
            found[one.group_id] = GroupMembers(len(one.members), frozenset(assigned))
    for messages, assigned_in in ((_CONSUMER_GROUPS, _assigned_partitions), (_STREAMS_GROUPS, _assigned_by_tasks)):
        missing = [group for group, members in found.items() if members is None]
        if missing and client.version_of(messages.api_key) >= 0:
            found |= _described(client, node, missing, messages, 0, assigned_in)
    return found


def describe_share_groups(client: KafkaClient, node: int, groups: Sequence[str]) -> dict[str, GroupMembers | None]:
    """Does the same as `describe_groups` for share groups (KIP-932). Brokers before Kafka 4.1 report none of them:
    every group gets None."""
    found: dict[str, GroupMembers | None] = dict.fromkeys(groups)
    if groups and client.version_of(_SHARE_GROUPS.api_key) >= _SHARE_VERSION:
        found |= _described(client, node, groups, _SHARE_GROUPS, _SHARE_VERSION, _assigned_partitions)
    return found


def _described(
    client: KafkaClient,
    node: int,
    groups: Sequence[str],
    messages: MissingMessages,
    version: int,
    assigned_in: Callable[[Any], Iterable[TopicPartition]],
) -> dict[str, GroupMembers | None]:
    """Returns a mapping from group to its members (None: the broker answered with an error about the group). Returns an
    empty dict if the answer cannot be decoded."""

    def read(answer: Any) -> dict[str, GroupMembers | None]:
        return {
            group.group_id: None
            if group.error_code
            else GroupMembers(len(group.members), frozenset(assigned_in(group)))
            for group in answer.groups
            if group.group_id in groups
        }

    found = messages.ask(client, node, version, read, group_ids=list(groups), include_authorized_operations=False)
    return found or {}


def _assigned_partitions(group: Any) -> Iterable[TopicPartition]:
    return (
        (topic.topic_name, partition)
        for member in group.members
        for topic in member.assignment.topic_partitions
        for partition in topic.partitions
    )


def _assigned_by_tasks(group: Any) -> Iterable[TopicPartition]:
    """Returns the partitions of a streams group. A task names a subtopology and partition numbers; the numbers apply to
    every topic that the subtopology reads. Only active tasks count: standby and warmup tasks read no source topics."""
    subtopologies = (group.topology and group.topology.subtopologies) or ()
    topics = {
        subtopology.subtopology_id: [
            *subtopology.source_topics,
            *(topic.name for topic in subtopology.repartition_source_topics),
        ]
        for subtopology in subtopologies
    }
    return (
        (topic, partition)
        for member in group.members
        for task in member.assignment.active_tasks
        for topic in topics.get(task.subtopology_id, ())
        for partition in task.partitions
    )


def _classic_assignment(data: bytes | None) -> list[TopicPartition]:
    """Decodes a member's assignment. Returns an empty list if the assignment cannot be decoded."""
    try:
        found = ConsumerProtocolAssignment.decode(bytes(data)).assigned_partitions if data else ()
    except (ValueError, IndexError, struct.error):
        return []
    return [(one.topic, partition) for one in found for partition in one.partitions]

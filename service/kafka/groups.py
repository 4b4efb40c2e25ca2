"""Lists groups, finds their coordinators, and reads the offsets that consumer groups committed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from service.domain.error_codes import error_text
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.cluster import by_topic

UNSTABLE_OFFSET_COMMIT: Final = 88
"""Error code: an open transaction commits an offset of the partition, so the group's consumers wait (KIP-447)."""

_GROUP_KEY = 0  # FindCoordinator: a group, not a transactional id
_BATCHED_COORDINATORS = 4  # the first FindCoordinator version with many keys
_BATCHED_OFFSETS = 8  # the first OffsetFetch version with many groups
_BY_NAME = 9  # the last OffsetFetch version with topic names; later versions have topic ids


class ListedGroup(NamedTuple):
    """A group as ListGroups reports it. `state`: Kafka's name of the state; empty from brokers before Kafka 2.6."""

    group: str
    protocol_type: str
    state: str


class Committed(NamedTuple):
    """A committed offset. `offset` is -1 if the group has committed no offset, or if `error` is UNSTABLE_OFFSET_COMMIT
    or another error."""

    offset: int
    error: int


class GroupOffsets(NamedTuple):
    """The offsets that a group committed. `error`: 0, or the code of an error about the whole group, such as
    NOT_COORDINATOR or a missing permission; with an error, `offsets` is empty."""

    error: int
    offsets: dict[tuple[str, int], Committed]


def list_groups(client: KafkaClient, node: int) -> list[ListedGroup]:
    """Returns the groups that broker `node` coordinates. Kafka silently leaves out groups that the principal may not
    describe (DESCRIBE on the cluster or the group). Raises KafkaUnavailable (also while the broker loads groups) or
    KafkaRefused.
    """
    answer = client.ask(ListGroupsRequest(states_filter=[], types_filter=[]), node)
    if answer.error_code:
        raise errors.KafkaUnavailable(f"ListGroups of broker {node}: {error_text(answer.error_code)}")
    return [ListedGroup(g.group_id, g.protocol_type, g.group_state or "") for g in answer.groups]


def coordinators_of(client: KafkaClient, groups: Sequence[str]) -> dict[str, int]:
    """Returns a mapping from group to the broker that coordinates it. Leaves out groups whose coordinator is not known
    now, and groups that the principal may not describe (DESCRIBE on the group). Raises KafkaUnavailable or
    KafkaRefused.

    The request makes Kafka create `__consumer_offsets` if this topic does not exist, so call the function only for
    groups that `list_groups` returned.
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
        found = [(coordinator.key, coordinator) for coordinator in client.ask(request).coordinators]
    return {group: one.node_id for group, one in found if not one.error_code and one.node_id >= 0}


def committed(
    client: KafkaClient,
    node: int,
    groups: Sequence[str],
    require_stable: bool,
    places: Mapping[str, Collection[tuple[str, int]]] | None = None,
) -> dict[str, GroupOffsets]:
    """Returns the offsets that the groups committed. `node` coordinates all these groups. `places`: a mapping from
    group to the partitions to ask for; for a group without an entry, all its partitions are asked for. Needs DESCRIBE
    on the groups and the topics. A topic without DESCRIBE gets error 29 if `places` names it, and is left out
    otherwise. Raises KafkaUnavailable or KafkaRefused.

    If `require_stable` is True, a partition gets the error UNSTABLE_OFFSET_COMMIT while an open transaction commits an
    offset of it; the group's consumers get the same error. If such a partition has no earlier commit, the answer
    contains it only if `places` names it.
    """
    if client.version_of(OffsetFetchRequest.API_KEY) < _BATCHED_OFFSETS:
        return {g: _committed_by_one(client, node, g, require_stable, (places or {}).get(g)) for g in groups}
    of_group = OffsetFetchRequest.OffsetFetchRequestGroup
    request = OffsetFetchRequest(
        groups=[
            of_group(group_id=g, topics=_topics(of_group.OffsetFetchRequestTopics, (places or {}).get(g)))
            for g in groups
        ],
        require_stable=require_stable,
        min_version=_BATCHED_OFFSETS,
        max_version=_BY_NAME,
    )
    return {g.group_id: _offsets(g) for g in client.ask(request, node).groups}


def _topics(of_topic: Any, places: Collection[tuple[str, int]] | None) -> list[Any] | None:
    """Returns one object of the request class `of_topic` for each topic, with the partitions to ask for. Returns None,
    which asks for all partitions, if `places` is None."""
    if places is None:
        return None
    return [of_topic(name=topic, partition_indexes=of) for topic, of in by_topic(places).items()]


def _committed_by_one(
    client: KafkaClient, node: int, group: str, require_stable: bool, places: Collection[tuple[str, int]] | None
) -> GroupOffsets:
    """Returns the offsets of one group. Brokers before Kafka 3.0 accept only one group per request."""
    request = OffsetFetchRequest(
        group_id=group,
        topics=_topics(OffsetFetchRequest.OffsetFetchRequestTopic, places),
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

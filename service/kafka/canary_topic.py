"""Sends the canary's requests that are no part of its transactions: about replicas of partitions, and about its
topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import CreateTopicsRequest, DeleteRecordsRequest

from service.domain.canary.targets import Replicated
from service.domain.error_codes import error_text
from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.cluster import TIMEOUT_MS, configs_request, layouts_request
from service.kafka.errors import KafkaFailure, KafkaRefused, KafkaUnavailable
from service.kafka.fetch import PartitionFetch, fetch_many

_TOPIC: Final = 2  # ConfigResource.Type
_TOPIC_ALREADY_EXISTS: Final = 36
_HIGH_WATERMARK: Final = -1
_DELETE_MS: Final = 1_000
_RECORD_BYTES: Final = 1 << 16
_ANSWER_MS: Final = 500
"""Time (ms) for the way to the broker and back, in addition to the time for which the broker waits."""
_REFUSED: Final = {
    errors.TOPIC_AUTHORIZATION_FAILED: "CREATE on it is not permitted",
    errors.CLUSTER_AUTHORIZATION_FAILED: "CREATE is not permitted",
    44: "the brokers' policy refuses it",  # POLICY_VIOLATION
}
MIN_ISR: Final = "min.insync.replicas"


class Replicas(NamedTuple):
    """The live brokers, and the partitions of each topic that the principal may describe. `missing`: topics that do not
    exist; `denied`: topics that the principal may not describe."""

    brokers: frozenset[int]
    topics: Mapping[str, tuple[Replicated, ...]]
    missing: frozenset[str]
    denied: frozenset[str]


def read_replicas(client: KafkaClient, topics: Sequence[str]) -> Replicas:
    """Returns the live brokers and the replicas of the topics, by one Metadata request. Never creates a topic. Raises
    KafkaUnavailable or KafkaRefused."""
    answer = client.ask(layouts_request(topics), None, TIMEOUT_MS)
    found: dict[str, tuple[Replicated, ...]] = {}
    missing, denied = set[str](), set[str]()
    for topic in answer.topics:
        if topic.error_code == errors.UNKNOWN_TOPIC_OR_PARTITION:
            missing.add(topic.name)
        elif topic.error_code == errors.TOPIC_AUTHORIZATION_FAILED:
            denied.add(topic.name)
        elif topic.error_code in (errors.NONE, errors.LEADER_NOT_AVAILABLE):
            found[topic.name] = tuple(sorted(map(_replicated, topic.partitions)))
        else:
            raise KafkaUnavailable(f"metadata of topic {topic.name}: {error_text(topic.error_code)}")
    brokers = frozenset(broker.node_id for broker in answer.brokers)
    return Replicas(brokers, found, frozenset(missing), frozenset(denied))


def _replicated(one: Any) -> Replicated:
    return Replicated(one.partition_index, one.leader_id, len(one.replica_nodes), len(one.isr_nodes))


def min_in_sync(client: KafkaClient, topic: str) -> int | None:
    """Returns min.insync.replicas of the topic; None if the request fails, or if the broker does not report the config
    (needs DESCRIBE_CONFIGS)."""
    try:
        result = client.ask(configs_request(_TOPIC, [topic], [MIN_ISR]), None, TIMEOUT_MS).results[0]
    except KafkaFailure:
        return None
    values = [config.value for config in result.configs or () if config.name == MIN_ISR]
    return int(values[0]) if values and (values[0] or "").isdecimal() else None


def create_topic(
    client: KafkaClient, topic: str, assignment: Sequence[Sequence[int]], configs: Mapping[str, str]
) -> None:
    """Creates the topic; does nothing if it exists. `assignment`: the replicas of each partition. Raises KafkaRefused
    if the principal may not create the topic, or if the brokers' policy refuses it; KafkaUnavailable for other
    failures."""
    one = CreateTopicsRequest.CreatableTopic
    wanted = one(
        name=topic,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            one.CreatableReplicaAssignment(partition_index=partition, broker_ids=[*brokers])
            for partition, brokers in enumerate(assignment)
        ],
        configs=[one.CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
    )
    answer = client.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS, validate_only=False)).topics[0]
    if answer.error_code in (errors.NONE, _TOPIC_ALREADY_EXISTS):
        return
    if (refused := _REFUSED.get(answer.error_code)) is not None:
        raise KafkaRefused(f"topic {topic} cannot be created: {refused}")
    why = getattr(answer, "error_message", None) or error_text(answer.error_code)
    raise KafkaUnavailable(f"topic {topic} cannot be created: {why}")


def delete_all_records(client: KafkaClient, topic: str, leader: int, partitions: Sequence[int]) -> None:
    """Deletes all records of these partitions, which `leader` leads. Raises KafkaUnavailable or KafkaRefused."""
    of_topic = DeleteRecordsRequest.DeleteRecordsTopic
    wanted = [
        of_topic.DeleteRecordsPartition(partition_index=partition, offset=_HIGH_WATERMARK) for partition in partitions
    ]
    request = DeleteRecordsRequest(topics=[of_topic(name=topic, partitions=wanted)], timeout_ms=_DELETE_MS)
    answer = client.ask(request, leader, _DELETE_MS)
    failed = [partition.error_code for of in answer.topics for partition in of.partitions if partition.error_code]
    if errors.TOPIC_AUTHORIZATION_FAILED in failed:
        raise KafkaRefused(f"records of topic {topic} cannot be deleted: DELETE is not permitted")
    if failed:
        raise KafkaUnavailable(f"records of topic {topic} cannot be deleted: {error_text(failed[0])}")


def look_for_committed(
    client: KafkaClient, topic: str, partition: int, leader: int, offset: int, wait_ms: int
) -> tuple[bool, int]:
    """Reads at `offset` as a read_committed consumer; the broker waits at most `wait_ms` for the record. Returns
    whether it is visible, and the error code of the answer.

    Sends a Fetch, because a consumer group would need permissions, and would create `__consumer_offsets`. Raises
    KafkaUnavailable or KafkaRefused."""
    wanted = PartitionFetch(partition, offset, -1, _RECORD_BYTES)
    (answer,) = fetch_many(
        client, leader, {topic: [wanted]}, _RECORD_BYTES, wait_ms, wait_ms + _ANSWER_MS, is_committed=True
    )
    return answer.error == errors.NONE and answer.last_stable_offset > offset, answer.error

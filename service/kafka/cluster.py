"""Reads the topics of a cluster with their leaders, and the cluster's id, brokers, finalized features and the configs
that verdicts depend on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from service.domain.partitions.facts import TopicPartition
from service.domain.reasons.unread import DESCRIBE, READ
from service.domain.transaction_log.states import CONFIG_DEFAULTS
from service.kafka import errors
from service.kafka.client import REQUEST_TIMEOUT_MS, KafkaClient
from service.kafka.errors import KafkaFailure, KafkaUnavailable

TIMEOUT_MS: Final = 5_000  # the broker may be frozen: callers then ask another one
BROKER: Final = 4  # ConfigResource.Type
_TOPIC_IDS = 12  # the last Metadata version that finds topics by name and shows their ids


@dataclass(frozen=True, slots=True)
class Leader:
    """The broker that leads a partition, and the leader epoch; `node` is -1 if there is no leader. `leader_check`
    compares Leaders that different brokers report, so this class has no field that brokers may report differently while
    the leader is the same: such a field belongs in TopicLayout."""

    node: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TopicLayout:
    """The metadata of a topic: the leaders of its partitions. `topic_id` changes when the topic is created again
    (KIP-516)."""

    topic: str
    topic_id: str
    leaders: dict[int, Leader]  # by partition


def topic_layout(client: KafkaClient, topic: str, ask: int | None = None) -> TopicLayout | None:
    """Returns the topic's layout as broker `ask` (any if None) sees it; None if the topic does not exist. Never creates
    the topic.

    Raises KafkaUnavailable, or KafkaRefused when the principal may not describe the topic.
    """
    found = client.ask(layouts_request([topic]), ask, TIMEOUT_MS).topics[0]
    if found.error_code == errors.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    if found.error_code != errors.LEADER_NOT_AVAILABLE:
        errors.raise_for(found.error_code, topic, (DESCRIBE, READ), f"Metadata of topic {topic}")
    return layout_of(found)


def layouts_request(topics: Iterable[str] | None) -> Any:
    """Returns a Metadata request for these topics, or for all if None. The request creates no topic."""
    wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=False, max_version=_TOPIC_IDS)


def layout_of(found: Any) -> TopicLayout:
    """Returns the layout of one topic in a Metadata answer."""
    leaders = {p.partition_index: Leader(p.leader_id, p.leader_epoch) for p in found.partitions}
    return TopicLayout(found.name, str(found.topic_id), dict(sorted(leaders.items())))


class Topics(NamedTuple):
    """All topics of a cluster. `layouts`: a mapping from topic to its layout. `denied`: a mapping from each topic whose
    partitions the broker does not name to the error code that it returns instead. `brokers`: ids of the live
    brokers."""

    layouts: dict[str, TopicLayout]
    denied: dict[str, int]
    brokers: tuple[int, ...]


def all_topics(client: KafkaClient, ask: int | None = None) -> Topics:
    """Returns every topic, internal ones included, as broker `ask` (any if None) sees it. Kafka does not list a topic
    at all if the principal may not describe it. Raises KafkaUnavailable or KafkaRefused.
    """
    answer = client.ask(layouts_request(None), ask, TIMEOUT_MS)
    layouts: dict[str, TopicLayout] = {}
    denied: dict[str, int] = {}
    for found in answer.topics:
        if found.error_code not in (errors.NONE, errors.LEADER_NOT_AVAILABLE):
            denied[found.name] = found.error_code
            continue
        layouts[found.name] = layout_of(found)
    return Topics(layouts, denied, tuple(sorted(b.node_id for b in answer.brokers)))


def cluster_id(client: KafkaClient) -> str:
    """Returns the id with which the brokers were formatted. Raises KafkaUnavailable or KafkaRefused."""
    found = client.ask(layouts_request([])).cluster_id
    if not found:
        raise KafkaUnavailable("the cluster does not report its id")
    return str(found)


def describe(client: KafkaClient) -> dict[str, Any]:
    """Returns `{"brokers": [{"id", "host", "port", "newest_metadata_version"}], "features": {name: level}, "configs":
    {name: {"value", "source"}}}`.

    `newest_metadata_version` is None if the broker does not report it or does not answer. `source` is "broker", or
    "assumed" if the broker did not return the config (needs DESCRIBE_CONFIGS on the cluster): `value` is then Kafka's
    default. Raises KafkaUnavailable or KafkaRefused.
    """
    brokers = _brokers(client)
    versions = _versions(client, [broker.node_id for broker in brokers])
    finalized: list[Any] = next((version.finalized_features or [] for version in versions.values()), [])
    return {
        "brokers": [
            {
                "id": b.node_id,
                "host": b.host,
                "port": b.port,
                "newest_metadata_version": _newest_metadata_version(versions.get(b.node_id)),
            }
            for b in brokers
        ],
        "features": {f.name: f.max_version_level for f in finalized},
        "configs": _configs(client, brokers[0].node_id),
    }


def broker_ids(client: KafkaClient, timeout_ms: int = REQUEST_TIMEOUT_MS) -> list[int]:
    """Returns the ids of the live brokers in ascending order. Raises KafkaUnavailable or KafkaRefused."""
    return [broker.node_id for broker in _brokers(client, timeout_ms)]


def _brokers(client: KafkaClient, timeout_ms: int = REQUEST_TIMEOUT_MS) -> list[Any]:
    brokers = client.ask(layouts_request([]), timeout_ms=timeout_ms).brokers
    return sorted(brokers, key=lambda broker: broker.node_id)


def _versions(client: KafkaClient, nodes: Sequence[int]) -> dict[int, Any]:
    """Returns the ApiVersions answer of each broker that answers. Raises KafkaUnavailable if none does."""
    answers = client.ask_all({node: [versions_request()] for node in nodes}, TIMEOUT_MS)
    found = {node: answer[0] for node, answer in answers.items() if not isinstance(answer, KafkaFailure)}
    if not found:
        raise KafkaUnavailable("no broker reports its versions")
    return found


def versions_request() -> Any:
    return ApiVersionsRequest(client_software_name="txnscope", client_software_version="1")


def _newest_metadata_version(versions: Any) -> int | None:
    supported = () if versions is None else versions.supported_features or ()
    return next((feature.max_version for feature in supported if feature.name == "metadata.version"), None)


def _configs(client: KafkaClient, broker: int) -> dict[str, dict[str, str]]:
    configs = {name: {"value": value, "source": "assumed"} for name, value in CONFIG_DEFAULTS.items()}
    try:
        result = client.ask(configs_request(BROKER, [str(broker)], list(CONFIG_DEFAULTS)), broker).results[0]
    except KafkaFailure:
        return configs
    for config in result.configs or []:
        if config.name in configs and (config.value or "").isdecimal():
            configs[config.name] = {"value": config.value, "source": "broker"}
    return configs


def configs_request(kind: int, names: Iterable[str], keys: Sequence[str]) -> Any:
    """Returns a request for the configs `keys` of resources of one kind (ConfigResource.Type)."""
    of_one = DescribeConfigsRequest.DescribeConfigsResource
    wanted = [of_one(resource_type=kind, resource_name=name, configuration_keys=list(keys)) for name in names]
    return DescribeConfigsRequest(resources=wanted, include_synonyms=False)


def by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Returns a mapping from topic to its partitions, in the order of `places`."""
    found: dict[str, list[int]] = {}
    for topic, partition in places:
        found.setdefault(topic, []).append(partition)
    return found

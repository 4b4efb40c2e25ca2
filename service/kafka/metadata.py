"""Reads the leaders of partitions, of one topic or of a whole cluster, from the brokers' present metadata."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka.protocol.metadata import MetadataRequest

from service.domain.reasons.unread import DESCRIBE, READ, NoPermission
from service.kafka import errors
from service.kafka.client import KafkaClient

TIMEOUT_MS = 5_000  # for a broker that may be frozen: another one is asked then
_TOPIC_IDS = 12  # the last Metadata version that finds topics by name and shows their ids


@dataclass(frozen=True, slots=True)
class Leader:
    """Broker that leads a partition, and its epoch; `node` is -1 while there is none. Leaders are compared, also as
    different brokers report them (`leader_check`); what brokers may report differently belongs into TopicLayout."""

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
    """Returns the topic's layout as broker `ask` (any if None) sees it; None if there is no topic. Never creates it.

    Raises KafkaUnavailable, or KafkaRefused when the principal may not describe it.
    """
    found = client.ask(layouts_request([topic]), ask, TIMEOUT_MS).topics[0]
    if found.error_code == errors.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    if found.error_code == errors.TOPIC_AUTHORIZATION_FAILED:
        raise errors.KafkaRefused(NoPermission(topic, (DESCRIBE, READ)))
    if found.error_code not in (errors.NONE, errors.LEADER_NOT_AVAILABLE):
        raise errors.KafkaUnavailable(f"metadata of topic {topic}: error {found.error_code}")
    return layout_of(found)


def layouts_request(topics: Iterable[str] | None) -> Any:
    """Returns a Metadata request for these topics, or for all; it creates none."""
    wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=False, max_version=_TOPIC_IDS)


def layout_of(found: Any) -> TopicLayout:
    """Returns the layout of one topic in a Metadata answer."""
    leaders = {p.partition_index: Leader(p.leader_id, p.leader_epoch) for p in found.partitions}
    return TopicLayout(found.name, str(found.topic_id), dict(sorted(leaders.items())))


class Topics(NamedTuple):
    """All topics of a cluster. `layouts`: by topic; `denied`: topics that the broker names without their partitions,
    with the error code; `brokers`: ids of those alive.
    """

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

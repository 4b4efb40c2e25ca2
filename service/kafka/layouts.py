"""Who leads what of all topics: the layout of a whole cluster as one broker's metadata shows it now."""

from __future__ import annotations

from typing import NamedTuple

from kafka.protocol.metadata import MetadataRequest

from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.metadata import Leader, TopicLayout

_TOPIC_IDS = 12  # as for one topic: names and ids


class Topics(NamedTuple):
    """`layouts` by topic; `denied`: topics the broker names without telling their partitions, with the error code;
    `brokers`: ids of those alive.
    """

    layouts: dict[str, TopicLayout]
    denied: dict[str, int]
    brokers: tuple[int, ...]


def all_topics(client: KafkaClient, ask: int | None = None) -> Topics:
    """Every topic, internal ones included, as broker `ask` (any if None) sees it. A topic that the principal may not
    describe is not listed by Kafka at all. Raises KafkaUnavailable or KafkaRefused.
    """
    answer = client.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False, max_version=_TOPIC_IDS), ask)
    layouts: dict[str, TopicLayout] = {}
    denied: dict[str, int] = {}
    for found in answer.topics:
        if found.error_code not in (errors.NONE, errors.LEADER_NOT_AVAILABLE):
            denied[found.name] = found.error_code
            continue
        leaders = {p.partition_index: Leader(p.leader_id, p.leader_epoch) for p in found.partitions}
        layouts[found.name] = TopicLayout(found.name, str(found.topic_id), dict(sorted(leaders.items())))
    return Topics(layouts, denied, tuple(sorted(b.node_id for b in answer.brokers)))

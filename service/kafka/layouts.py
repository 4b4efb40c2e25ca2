"""Who leads what of all topics: the layout of a whole cluster as one broker's metadata shows it now."""

from __future__ import annotations

from typing import NamedTuple

from service.kafka import errors
from service.kafka.client import KafkaClient
from service.kafka.metadata import TIMEOUT_MS, TopicLayout, layout_of, layouts_request


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
    answer = client.ask(layouts_request(None), ask, TIMEOUT_MS)
    layouts: dict[str, TopicLayout] = {}
    denied: dict[str, int] = {}
    for found in answer.topics:
        if found.error_code not in (errors.NONE, errors.LEADER_NOT_AVAILABLE):
            denied[found.name] = found.error_code
            continue
        layouts[found.name] = layout_of(found)
    return Topics(layouts, denied, tuple(sorted(b.node_id for b in answer.brokers)))

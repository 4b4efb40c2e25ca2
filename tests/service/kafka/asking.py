"""Helpers that create a topic, and that open a transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from service.kafka.client import KafkaClient
from service.kafka.cluster import TopicLayout, topic_layout
from tests.helpers.waiting import ANSWER_S, wait_for
from tests.integration.producers import create_topic, open_producer


def new_topic(client: KafkaClient, bootstrap: str, topic: str, partitions: int = 2) -> TopicLayout:
    """Creates a topic, and returns its layout once every partition has a leader."""
    create_topic(bootstrap, topic, partitions)

    def whole() -> TopicLayout | None:
        found = topic_layout(client, topic)
        led = found and len(found.leaders) == partitions and all(leader.node >= 0 for leader in found.leaders.values())
        return found if led else None

    return wait_for(whole, f"leaders of {partitions} partitions of {topic}")


@contextmanager
def open_transaction(bootstrap: str, transactional_id: str, topic: str, partition: int = 0) -> Iterator[Producer]:
    """Yields a producer with an open transaction and one record in `partition`, and aborts the transaction at the
    end."""
    producer = open_producer(bootstrap, transactional_id)
    producer.begin_transaction()
    producer.produce(topic, b"payload", partition=partition)
    producer.flush(ANSWER_S)
    try:
        yield producer
    finally:
        producer.abort_transaction(ANSWER_S)

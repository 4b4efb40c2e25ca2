"""What the tests of this room share: a topic's layout, an open transaction, and patience."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from confluent_kafka import Producer

from service.kafka.client import KafkaClient
from service.kafka.metadata import TopicLayout, topic_layout
from tests.integration.producers import create_topic, open_producer

_T = TypeVar("_T")
PATIENCE_S = 20.0


def wait_for(probe: Callable[[], _T | None]) -> _T:
    """The first answer that is not None: a new topic, a marker, a coordinator take their time."""
    give_up = time.monotonic() + PATIENCE_S
    while (found := probe()) is None:
        assert time.monotonic() < give_up, "it never comes"
        time.sleep(0.05)
    return found


def new_topic(client: KafkaClient, bootstrap: str, topic: str, partitions: int = 2) -> TopicLayout:
    """Created, and every partition led."""
    create_topic(bootstrap, topic, partitions)

    def whole() -> TopicLayout | None:
        found = topic_layout(client, topic)
        led = found and len(found.leaders) == partitions and all(one.node >= 0 for one in found.leaders.values())
        return found if led else None

    return wait_for(whole)


@contextmanager
def open_transaction(bootstrap: str, transactional_id: str, topic: str, partition: int = 0) -> Iterator[Producer]:
    """With one record in `partition`; aborted in the end where the test did not end it."""
    producer = open_producer(bootstrap, transactional_id)
    producer.begin_transaction()
    producer.produce(topic, b"payload", partition=partition)
    producer.flush(30)
    try:
        yield producer
    finally:
        producer.abort_transaction(30)

"""Commits offsets of consumer groups, also on brokers that have just started."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.helpers.waiting import wait_for
from tests.integration.producers import NULL_LOGGER

_LOADING = (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR)


def commit_offsets(group: Consumer, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commits the offsets, which are keyed by (topic, partition). Repeats the commit until the group has a coordinator.
    Raises KafkaException if the commit fails for another reason."""
    wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]

    def is_committed() -> bool:
        try:
            group.commit(offsets=wanted, asynchronous=False)
        except KafkaException as e:
            if e.args[0].code() not in _LOADING:
                raise
            return False
        return True

    wait_for(is_committed, f"a coordinator that accepts the commit of {sorted(offsets)}")


def commit_idle(bootstrap: str, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "logger": NULL_LOGGER})
    commit_offsets(consumer, offsets)
    consumer.close()

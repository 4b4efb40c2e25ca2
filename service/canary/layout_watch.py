"""Keeps the layout of the transaction log and of the canary's topic up to date, and creates the topic."""

from __future__ import annotations

import time
from typing import Final

from service.domain.canary.targets import Layout, Replicated, assignment
from service.kafka.canary_topic import (
    MIN_ISR,
    create_topic,
    delete_all_records,
    min_in_sync,
    read_replicas,
)
from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaFailure, KafkaRefused, KafkaUnavailable
from service.kafka.settings import ClientSettings

LOG: Final = "__transaction_state"
_CONFIG_EVERY_S: Final = 60.0
_TOPIC_CONFIGS: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "3600000",
    "segment.ms": "600000",
    "segment.bytes": "1048576",
    "max.message.bytes": "65536",
    MIN_ISR: "1",  # the canary is about coordinators: a follower that is away fails no round by itself
}


class LayoutWatch:
    """Reads the canary's layout, and creates the canary's topic if it does not exist. Only one thread may use an object
    of this class."""

    def __init__(self, settings: ClientSettings, topic: str) -> None:
        self._settings, self._topic = settings, topic
        self._client: KafkaClient | None = None
        self._min_in_sync: int | None = None
        self._configs_at_s = float("-inf")

    def read(self) -> Layout:
        """Returns the present layout. Creates the canary's topic first if it does not exist.

        Raises KafkaUnavailable or KafkaRefused if the canary cannot run: there is no transaction log yet, a permission
        is missing, the topic cannot be created or is not listed yet, or no broker answers. The text of the error is the
        reason. Raises BadClientConfig if the settings cannot be used.
        """
        if self._client is None:
            self._client = KafkaClient(self._settings, client_id="txnscope-canary")
        try:
            return self._read(self._client)
        except KafkaRefused:
            raise
        except KafkaFailure:
            self.close()
            raise

    def _read(self, client: KafkaClient) -> Layout:
        found = read_replicas(client, [LOG, self._topic])
        for topic in (LOG, self._topic):
            if topic in found.denied:
                raise KafkaRefused(f"topic {topic}: DESCRIBE is not permitted")
        if LOG in found.missing:
            raise KafkaRefused(f"the brokers list no topic {LOG}; Kafka creates it with the first transactional.id")
        log = found.topics[LOG]
        if self._topic in found.missing:
            self._create(client, found.brokers, log)
            found = read_replicas(client, [LOG, self._topic])
            if self._topic not in found.topics:
                raise KafkaRefused(f"the brokers do not list topic {self._topic} yet")
        if time.monotonic() - self._configs_at_s > _CONFIG_EVERY_S:
            self._min_in_sync, self._configs_at_s = min_in_sync(client, LOG), time.monotonic()
        return Layout(found.brokers, log, found.topics[self._topic], self._min_in_sync)

    def _create(self, client: KafkaClient, brokers: frozenset[int], log: tuple[Replicated, ...]) -> None:
        if not brokers:
            raise KafkaUnavailable("the cluster reports no live broker")
        replicas = max((one.replicas for one in log), default=1)
        create_topic(client, self._topic, assignment(sorted(brokers), replicas), _TOPIC_CONFIGS)

    def delete_records(self, layout: Layout) -> None:
        """Deletes the canary's records, except on partitions without a live leader. Raises KafkaUnavailable or
        KafkaRefused. Does nothing before the first `read`, or if the last `read` failed with another error than
        KafkaRefused."""
        if self._client is None:
            return
        leaders = {one.leader for one in layout.topic} & layout.brokers
        for leader in sorted(leaders):
            led = [one.partition for one in layout.topic if one.leader == leader]
            delete_all_records(self._client, self._topic, leader, led)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

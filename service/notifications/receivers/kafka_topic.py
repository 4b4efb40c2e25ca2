"""A receiver that writes each notification to a Kafka topic, as a CloudEvent keyed by the finding's id.

A compacted topic keeps the newest event of each finding. Events of a finding stay in order: an event is sent only after
the broker has acknowledged the finding's previous event.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from confluent_kafka import KafkaError, KafkaException, Producer

from service.kafka.errors import BadClientConfig
from service.kafka.librdkafka import config
from service.kafka.settings import ClientSettings
from service.notifications.notification import Notification, Receiver, Undelivered

log = logging.getLogger("txnscope.notifications.kafka")

WITHIN_S: Final = 10.0
CONTENT_TYPE: Final = b"application/cloudevents+json; charset=UTF-8"
_PRODUCER: Final = {
    "enable.idempotence": True,
    "delivery.timeout.ms": int(WITHIN_S * 1000),
    "request.timeout.ms": int(WITHIN_S * 1000 / 2),
    "linger.ms": 5,
    "allow.auto.create.topics": False,
}


class KafkaTopic(Receiver):
    """Writes to the topic of an address like kafka://HOST:PORT[,…]/TOPIC, with the client settings in the file
    `client_properties`, if given. `refused`: a function that returns the ids of the Kafka clusters that must not be
    written to. Address and file are read anew for each producer."""

    def __init__(
        self, url: Callable[[], str], client_properties: Path | None, refused: Callable[[], Collection[str]]
    ) -> None:
        self._url, self._client_properties, self._refused = url, client_properties, refused
        self._producer: Producer | None = None
        self._topic = ""

    def send(self, notifications: Sequence[Notification]) -> None:
        producer, taken = self._producer or self._open(), 0
        for some in _one_of_each_finding(notifications):
            self._write(producer, some, taken)
            taken += len(some)

    def _write(self, producer: Producer, notifications: Sequence[Notification], taken_before: int) -> None:
        outcomes: list[KafkaError | str | None] = ["no answer from a broker"] * len(notifications)
        try:
            for number, notification in enumerate(notifications):
                producer.produce(
                    self._topic,
                    json.dumps(cloud_event(notification), separators=(",", ":")).encode(),
                    notification.finding.id.encode(),
                    headers={"content-type": CONTENT_TYPE},
                    on_delivery=partial(_note, outcomes, number),
                )
                producer.poll(0)
            producer.flush(WITHIN_S + 1)
        except (KafkaException, BufferError) as error:
            outcomes = [error.args[0]] * len(notifications)
        taken = next((number for number, outcome in enumerate(outcomes) if outcome is not None), None)
        if taken is not None:
            self.close()
            failure = outcomes[taken]
            text = failure.str() if isinstance(failure, KafkaError) else str(failure)
            raise Undelivered(text, taken=taken_before + taken)

    def close(self) -> None:
        """Drops the producer, so that the next attempt after a failure opens a new producer with new credentials."""
        if self._producer is not None:
            self._producer.purge()
            self._producer = None

    def _open(self) -> Producer:
        """Returns a new producer. Raises Undelivered if the settings are wrong, no broker answers, the topic cannot be
        used, or its cluster is one of `refused`."""
        try:
            servers, _, self._topic = self._url().removeprefix("kafka://").rstrip("/").rpartition("/")
            settings = config(ClientSettings.load(servers, self._client_properties))
            producer = Producer({**settings, **_PRODUCER}, logger=log)
            known = producer.list_topics(self._topic, WITHIN_S)
        except (BadClientConfig, KafkaException, OSError, ValueError) as error:
            raise Undelivered(" ".join(str(error).split())) from error
        if (unusable := known.topics[self._topic].error) is not None:
            raise Undelivered(f"topic {self._topic}: {unusable.str()}")
        if known.cluster_id in self._refused():
            raise Undelivered(
                f"the brokers are those of the watched cluster {known.cluster_id}, so notifications fail when this"
                " cluster fails; to write to this cluster anyway, set allow_watched_cluster = true"
            )
        self._producer = producer
        return producer


def _one_of_each_finding(notifications: Sequence[Notification]) -> Iterator[Sequence[Notification]]:
    """Yields the notifications in consecutive groups; no group has two notifications of the same finding."""
    start, seen = 0, set[str]()
    for number, notification in enumerate(notifications):
        if notification.finding.id in seen:
            yield notifications[start:number]
            start, seen = number, set()
        seen.add(notification.finding.id)
    yield notifications[start:]


def _note(outcomes: list[KafkaError | str | None], number: int, error: KafkaError | None, _: object) -> None:
    outcomes[number] = error


def cloud_event(notification: Notification) -> dict[str, Any]:
    """Returns the notification as CloudEvents 1.0 in structured JSON."""
    body = notification.as_json()
    return {
        "specversion": "1.0",
        "id": notification.id,
        "source": f"/clusters/{quote(notification.cluster, safe='')}",
        "type": f"io.txnscope.finding.{notification.event}",
        "subject": notification.finding.id,
        "time": body["at"],
        "datacontenttype": "application/json",
        "data": body,
    }

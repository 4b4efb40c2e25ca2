"""The service's way to Kafka, for what the store cannot answer: one connection, one caller at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fastapi import Request

from service.api.http.problems import KAFKA_REFUSED, KAFKA_UNAVAILABLE, NO_BROKERS, ProblemError
from service.kafka.client import KafkaClient
from service.kafka.cluster import cluster_id
from service.kafka.errors import BadClientConfig, KafkaRefused, KafkaUnavailable
from service.kafka.settings import ClientSettings
from service.store.queries.clusters import ClusterRow

_TURN_S: Final = 20.0
"""How long a request waits for the ones before it."""


class Kafka:
    """Connects when it is first asked. `settings` None: there are no brokers to ask."""

    def __init__(self, settings: ClientSettings | None) -> None:
        self._settings = settings
        self._turn = threading.Lock()
        self._client: KafkaClient | None = None
        self._cluster_id = ""

    @contextmanager
    def asking(self, cluster: ClusterRow) -> Iterator[KafkaClient]:
        """A client of the cluster's brokers, nobody else's until the block ends. What Kafka fails with in the block
        becomes a problem.

        ProblemError: 503 without brokers, with those of another cluster, while they do not answer or others are being
        answered; 502 if they refuse, naming the permission.
        """
        if self._settings is None:
            raise ProblemError(
                503,
                NO_BROKERS,
                "no brokers configured: this has to be asked of Kafka, start the service with --bootstrap-servers",
            )
        if not self._turn.acquire(timeout=_TURN_S):
            raise ProblemError(503, KAFKA_UNAVAILABLE, "too many requests ask Kafka at once", retry=True)
        try:
            client = self._connected(self._settings)
            if self._cluster_id != cluster.kafka_cluster_id:
                raise ProblemError(
                    503,
                    NO_BROKERS,
                    f"no brokers configured for cluster {cluster.name!r}: --bootstrap-servers leads to another one,"
                    f" with the id {self._cluster_id}",
                )
            yield client
        except KafkaUnavailable as error:
            self._drop()
            raise ProblemError(503, KAFKA_UNAVAILABLE, str(error), retry=True) from error
        except BadClientConfig as error:
            raise ProblemError(503, NO_BROKERS, str(error)) from error
        except KafkaRefused as error:
            self._drop()
            raise ProblemError(502, KAFKA_REFUSED, str(error)) from error
        finally:
            self._turn.release()

    def close(self) -> None:
        with self._turn:
            self._drop()

    def _connected(self, settings: ClientSettings) -> KafkaClient:
        """One that has just answered: brokers restart, and close what nobody uses."""
        if self._client is not None:
            try:
                self._cluster_id = cluster_id(self._client)
            except KafkaUnavailable:
                self._drop()
        if self._client is None:
            self._client = KafkaClient(settings)
            self._cluster_id = cluster_id(self._client)
        return self._client

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


def kafka_of(request: Request) -> Kafka:
    """The connection of the application that answers the request."""
    kafka = request.app.state.kafka
    assert isinstance(kafka, Kafka)
    return kafka

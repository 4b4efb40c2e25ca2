"""The service's connections to Kafka, for facts that the store lacks, and for markers. Each connection has one client,
used by one request at a time.

Reads and markers have separate connections, so that no read delays a marker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final, TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from service.api.http.problems import (
    KAFKA_REFUSED,
    KAFKA_UNAVAILABLE,
    NO_BROKERS,
    NO_SUCH_OFFSET,
    NO_SUCH_PARTITION,
    TOO_MANY_REQUESTS,
    ProblemError,
)
from service.api.http.state import AppState
from service.kafka.client import KafkaClient
from service.kafka.cluster import cluster_id
from service.kafka.errors import BadClientConfig, KafkaRefused, KafkaUnavailable
from service.kafka.settings import ClientSettings
from service.store.queries.clusters import ClusterRow
from service.views.partitions.offsets import ExplainedOffsets, explain
from service.views.partitions.offsets_reading import NoSuchOffset, NoSuchPartition

Result = TypeVar("Result")


class OwnThreads:
    """Runs work of one kind in threads, at most `number` of them at once for each event loop. `purpose`: a name for the
    kind of work."""

    def __init__(self, purpose: str, number: int) -> None:
        self._number = number
        self._limiter: RunVar[CapacityLimiter] = RunVar(purpose)

    async def run(self, work: Callable[[], Result]) -> Result:
        limiter = self._limiter.get(None)
        if limiter is None:
            limiter = CapacityLimiter(self._number)
            self._limiter.set(limiter)
        return await to_thread.run_sync(work, limiter=limiter)


_TURN_S: Final = 20.0
"""Longest time (s) for which a request waits for earlier requests that use the same connection."""

MOST_AT_ONCE: Final = 16
"""Maximum number of requests that use one connection or wait for it. Each of these requests occupies a thread of the
pool that also answers most other requests."""


class Kafka:
    """A connection to the configured brokers, opened at its first use. If `settings` is None, no brokers are
    configured."""

    def __init__(self, settings: ClientSettings | None) -> None:
        self._settings = settings
        self._places = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._turn = threading.Lock()
        self._client: KafkaClient | None = None
        self._cluster_id = ""

    @contextmanager
    def asking(self, cluster: ClusterRow) -> Iterator[KafkaClient]:
        """Yields a client of the cluster's brokers, for this caller alone until the block ends. Kafka's errors in the
        block become problems.

        Raises ProblemError: 503 if no brokers are configured, if the client's settings cannot be used, if the brokers
        are of another cluster or do not answer, or if other requests use the client for too long; 502, with the reason,
        if the brokers refuse; 429 if MOST_AT_ONCE other requests already use the client or wait for it.
        """
        if self._settings is None:
            raise ProblemError(
                503,
                NO_BROKERS,
                "this request needs Kafka, but no brokers are configured; start the service with --bootstrap-servers",
            )
        if not self._places.acquire(blocking=False):
            raise ProblemError(
                429,
                TOO_MANY_REQUESTS,
                f"{MOST_AT_ONCE} requests already use Kafka or wait for it; try again later",
                retry=True,
            )
        try:
            with self._own_turn(), self._kafka_errors_as_problems():
                client = self._connected(self._settings)
                if self._cluster_id != cluster.kafka_cluster_id:
                    raise ProblemError(
                        503,
                        NO_BROKERS,
                        f"no brokers are configured for cluster {cluster.name!r}: the configured brokers belong to"
                        f" another cluster, with the id {self._cluster_id}",
                    )
                yield client
        finally:
            self._places.release()

    def close(self) -> None:
        with self._turn:
            self._drop()

    @contextmanager
    def _own_turn(self) -> Iterator[None]:
        if not self._turn.acquire(timeout=_TURN_S):
            raise ProblemError(
                503,
                KAFKA_UNAVAILABLE,
                "earlier requests to Kafka take too long; try again later",
                retry=True,
            )
        try:
            yield
        finally:
            self._turn.release()

    @contextmanager
    def _kafka_errors_as_problems(self) -> Iterator[None]:
        try:
            yield
        except KafkaUnavailable as error:
            self._drop()
            raise ProblemError(503, KAFKA_UNAVAILABLE, str(error), retry=True) from error
        except BadClientConfig as error:
            raise ProblemError(503, NO_BROKERS, str(error)) from error
        except KafkaRefused as error:
            self._drop()
            raise ProblemError(502, KAFKA_REFUSED, str(error)) from error

    def _connected(self, settings: ClientSettings) -> KafkaClient:
        """Returns a client whose brokers have just answered. Connects anew if the kept client gets no answer, because
        brokers restart and close idle connections."""
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


class Brokers:
    """Connections to Kafka for one purpose, such as reads. Each cluster named in `clusters` has a connection of its
    own. All other clusters share the connection with the settings `other`."""

    def __init__(self, other: ClientSettings | None, clusters: Mapping[str, ClientSettings]) -> None:
        self._other = Kafka(other)
        self._of_clusters = {name: Kafka(settings) for name, settings in clusters.items()}

    def asking(self, cluster: ClusterRow) -> AbstractContextManager[KafkaClient]:
        """Calls `Kafka.asking` of the connection for the cluster."""
        return self._of_clusters.get(cluster.name, self._other).asking(cluster)

    def close(self) -> None:
        for one in (self._other, *self._of_clusters.values()):
            one.close()


def explained(
    app: AppState, cluster: ClusterRow, topic: str, partition: int, offset: int, end: int
) -> ExplainedOffsets:
    """Explains the offsets [offset, end). Raises ProblemError if the partition or offset does not exist, or if Kafka
    cannot be asked; StoreError if the store does not answer.

    This may take seconds, so the caller should hold no connection to the store meanwhile.
    """
    client, reading = app.kafka.asking(cluster), app.store.read
    try:
        return explain(client, reading, cluster, (topic, partition), offset, end, app.now_ms())
    except NoSuchPartition as error:
        raise ProblemError(404, NO_SUCH_PARTITION, str(error)) from error
    except NoSuchOffset as error:
        raise ProblemError(404, NO_SUCH_OFFSET, str(error)) from error

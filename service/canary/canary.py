"""Runs the canary of one cluster in the service that holds the canary's lease."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from functools import partial

from sqlalchemy import Engine

from service.canary.coordinator_rounds import Clocks
from service.canary.running import JOIN_S, Plan, RunningCanary
from service.kafka.client import KafkaClient
from service.kafka.cluster import cluster_id as read_cluster_id
from service.kafka.errors import KafkaFailure
from service.store.errors import StoreError
from service.store.lease import Lease, canary_lease
from service.store.leased_work import LeasedWork, Work
from service.store.queries.clusters import all_clusters
from service.store.standby import LOOK_EVERY_S

log = logging.getLogger("txnscope.canary")


class Canary:
    """Runs the canary of one cluster until `stop`. The rounds begin when the store knows the cluster."""

    def __init__(self, engine: Engine, plan: Plan, clocks: Clocks) -> None:
        self._engine, self._plan, self._clocks = engine, plan, clocks
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="canary", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Makes the threads end soon. `join` waits for their end."""
        self._stopping.set()

    def join(self, within_s: float) -> None:
        self._thread.join(within_s)

    def _run(self) -> None:
        while (cluster_id := self._find_cluster()) is None:
            if self._stopping.wait(LOOK_EVERY_S):
                return
        begin = partial(self._begin, cluster_id)
        leased = LeasedWork(self._engine, canary_lease(cluster_id), "canary", begin, self._clocks.now_ms)
        leased.start()
        self._stopping.wait()
        leased.stop(2 * JOIN_S)

    def _begin(self, cluster_id: int, held: Lease) -> Sequence[Work]:
        running = RunningCanary(self._engine, self._plan, self._clocks, held, cluster_id)
        running.begin()
        return [Work("canary", running.run)]

    def _find_cluster(self) -> int | None:
        """Returns the cluster's number in the store. Returns None if Kafka or the store does not answer, or if the
        application that reads the cluster has not stored the cluster yet."""
        try:
            with KafkaClient(self._plan.settings, client_id="txnscope-canary") as client:
                kafka_cluster_id = read_cluster_id(client)
            with self._engine.begin() as connection:
                for cluster in all_clusters(connection):
                    if cluster.kafka_cluster_id == kafka_cluster_id:
                        return cluster.id
        except (StoreError, KafkaFailure) as error:
            log.debug("canary: %s", error)
        except Exception:  # a bug of ours, or of a library, must not end the thread
            log.exception("the canary cannot find its cluster")
        return None

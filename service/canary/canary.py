"""Runs the canary of one cluster whenever this service holds the canary's lease, in a thread of its own."""

from __future__ import annotations

import logging
import threading

from sqlalchemy import Engine

from service.canary.coordinator_rounds import Clocks
from service.canary.running import Plan, RunningCanary
from service.kafka.client import KafkaClient
from service.kafka.cluster import cluster_id as read_cluster_id
from service.kafka.errors import KafkaFailure
from service.processes.identity import own_identity
from service.store.errors import StoreError
from service.store.lease import canary_lease
from service.store.queries.clusters import all_clusters
from service.store.standby import LOOK_EVERY_S, Standby

log = logging.getLogger("txnscope.canary")


class Canary:
    """Runs the canary until `stop`."""

    def __init__(self, engine: Engine, plan: Plan, clocks: Clocks) -> None:
        self._engine, self._plan, self._clocks = engine, plan, clocks
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="canary", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Begins to end the threads. `join` waits for their end."""
        self._stopping.set()

    def join(self, within_s: float) -> None:
        self._thread.join(within_s)

    def _run(self) -> None:
        standby: Standby | None = None
        cluster_id = 0
        while not self._stopping.is_set():
            try:
                if standby is None:
                    cluster_id = self._find_cluster()
                    standby = Standby(self._engine, canary_lease(cluster_id), own_identity())
                if (held := standby.acquire(self._clocks.now_ms())) is not None:
                    RunningCanary(self._engine, self._plan, self._clocks, held, cluster_id).run(self._stopping)
            except (StoreError, KafkaFailure, LookupError) as error:
                log.debug("canary: %s", error)
            except Exception:  # a bug of ours, or of a library, must not end the thread
                log.exception("the canary failed")
            self._stopping.wait(LOOK_EVERY_S)

    def _find_cluster(self) -> int:
        """Returns the store's number of the cluster. Raises LookupError while the store does not know it: the
        application that reads it gives it its name."""
        with KafkaClient(self._plan.settings, client_id="txnscope-canary") as client:
            kafka_cluster_id = read_cluster_id(client)
        with self._engine.begin() as connection:
            for cluster in all_clusters(connection):
                if cluster.kafka_cluster_id == kafka_cluster_id:
                    return cluster.id
        raise LookupError(f"the store does not know the cluster {kafka_cluster_id} yet")

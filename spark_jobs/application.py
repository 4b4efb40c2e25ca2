"""Runs the application: registers the cluster, starts Spark, holds the lease, keeps the queries running, and
deletes old data."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from sqlalchemy import Engine

from service.clock import wall_clock_ms
from service.domain.retention_policy import Keep
from service.kafka import cluster as kafka_cluster
from service.kafka.client import KafkaClient
from service.kafka.errors import KafkaFailure, KafkaUnavailable
from service.processes.identity import own_identity
from service.store import clusters, lease
from service.store.engine import open_engine
from service.store.errors import StoreError, StoreLost, StoreUnavailable
from service.store.lease import Lease
from service.store.migrate import upgrade
from service.store.retention import Retention
from service.store.standby import LOOK_EVERY_S, Standby
from spark_jobs.jobs.ledger import LedgerJob, end_tailing
from spark_jobs.jobs.partitions import PartitionsJob
from spark_jobs.jobs.transaction_log import TransactionLogJob
from spark_jobs.judge.judge import judging
from spark_jobs.judge.marker_audit import auditing_markers
from spark_jobs.judge.recogniser import recognising
from spark_jobs.runtime.cluster import Executors
from spark_jobs.runtime.error_summary import error_summary
from spark_jobs.runtime.job_runner import Job, TooManyFailures, run_jobs
from spark_jobs.runtime.liveness import BACKGROUND_S, END_S, MIGRATION_S, START_S, Liveness, Part
from spark_jobs.runtime.periodic import repeated
from spark_jobs.runtime.queries import Queries
from spark_jobs.runtime.session import SparkStart
from spark_jobs.runtime.watchdog import Watchdog
from spark_jobs.settings import IngestSettings

EVERY_S: Final = 60.0
SOON_S: Final = 1.0
"""Pause (s) between two steps of a large deletion, so that others can use the store."""


@contextmanager
def deleting_old_data(engine: Engine, lease: Lease, keep: Keep, liveness: Liveness) -> Iterator[None]:
    """Deletes old data piece by piece, in the background, until the block ends or the lease is lost."""
    retention = Retention(engine, lease, keep=keep)

    def work(now_ms: int) -> float:
        return SOON_S if retention.delete_old(now_ms) else EVERY_S

    with repeated("the deletion of old data", work, liveness):
        yield


log = logging.getLogger("txnscope.ingest")

FIRST_CONTACT_S = 30
DESCRIBE_EVERY_S = 60
PAUSE_S = 1.0


class Application:
    """The application. `run` returns once `stopping` is set. If the application cannot begin, `run` raises
    KafkaFailure, StoreError, JavaNotFound or SparkFailed; if it cannot continue, TooManyFailures or StoreError."""

    def __init__(
        self,
        settings: IngestSettings,
        stopping: threading.Event,
        liveness: Liveness,
        watchdog: Watchdog,
        scratch: Path,
        starting: SparkStart,
    ) -> None:
        """`scratch`: a folder for files that live as long as this process."""
        self._settings, self._stopping, self._liveness = settings, stopping, liveness
        self._watchdog, self._scratch, self._starting = watchdog, scratch, starting

    def run(self) -> None:
        engine = open_engine(self._settings.store)
        try:
            with self._liveness.part("the migration of the store", MIGRATION_S, start_s=MIGRATION_S):
                upgrade(engine)
            with self._liveness.part("the start", START_S) as start:
                cluster_id = self._bind(engine, start)
                if cluster_id is None:
                    return
                start.note_start()
                standby = Standby(engine, cluster_id, own_identity())
                spark = self._start_spark(standby)
            try:
                describe = partial(self._describe, engine, cluster_id)
                with repeated("the description of the cluster", describe, self._liveness):
                    self._run_jobs(spark, engine, standby)
            except StoreLost as e:
                raise TooManyFailures(str(e)) from e
            finally:
                self._watchdog.allow_jvm_end()
                with self._liveness.part("Spark's end", END_S, start_s=END_S), suppress(Exception):
                    spark.stop()  # a JVM that is gone has nothing to stop
        finally:
            engine.dispose()

    def _start_spark(self, standby: Standby) -> SparkSession:
        """Returns Spark's session. While Spark starts, `standby` already watches the lease, so that the wait for the
        lease of a dead holder is nearly over when the session is ready."""
        while not self._starting.is_over(LOOK_EVERY_S):
            with suppress(StoreUnavailable):
                standby.look()
        return self._starting.session()

    def _run_jobs(self, spark: SparkSession, engine: Engine, standby: Standby) -> None:
        # the objects made so far stay: searching them for garbage would pause all threads from time to time
        gc.collect()
        gc.freeze()
        executors = None if self._settings.master.is_local else Executors(spark)
        queries = Queries(spark, self._settings.checkpoint or self._scratch, executors)
        wake_judge = threading.Event()
        jobs: list[Job] = [
            TransactionLogJob(queries, self._settings, engine),
            PartitionsJob(queries, self._settings, engine, self._scratch, wake_judge),
        ]
        if self._settings.tails:
            jobs.append(LedgerJob(queries, self._settings, engine))
        self._keep_running(jobs, engine, standby, wake_judge)

    def _bind(self, engine: Engine, start: Part) -> int | None:
        """Returns the number that the cluster has in the store; None if the application is to stop."""
        kafka_id = self._first_contact(start)
        if kafka_id is None:
            return None
        name = self._settings.cluster or kafka_id
        log.info("cluster %s (Kafka cluster id %s)", name, kafka_id)
        return clusters.bind(engine, name, kafka_id, wall_clock_ms())

    def _first_contact(self, start: Part) -> str | None:
        """Returns the Kafka cluster id; None if the application is to stop. Waits for a broker to answer, because the
        broker may have been started together with this process. Raises KafkaUnavailable after FIRST_CONTACT_S, because
        the address may be wrong."""
        give_up = time.monotonic() + FIRST_CONTACT_S
        has_logged = False
        while True:
            try:
                with KafkaClient(self._settings.client) as client:
                    return kafka_cluster.cluster_id(client)
            except KafkaUnavailable as e:
                start.step()
                if time.monotonic() > give_up:
                    raise
                if self._stopping.wait(0.5):
                    return None
                if not has_logged:
                    log.warning("waiting for Kafka: %s", e)
                    has_logged = True

    def _keep_running(self, jobs: Sequence[Job], engine: Engine, standby: Standby, wake_judge: threading.Event) -> None:
        """Runs the jobs and the judge under a lease, again and again. When the jobs end, all work under the lease ends,
        and begins again under a new lease. `wake_judge` starts a round of the judge."""
        while not self._stopping.is_set():
            held_lease = self._wait_for_lease(standby)
            if held_lease is None:
                return
            try:
                if not self._settings.tails:
                    end_tailing(engine, held_lease)
                with (
                    auditing_markers(self._settings.store, engine, held_lease, self._liveness)
                    if self._settings.tails
                    else nullcontext(),
                    judging(self._settings, engine, held_lease, self._liveness, wake_judge),
                    recognising(self._settings, engine, held_lease, self._liveness),
                    deleting_old_data(engine, held_lease, self._settings.keep, self._liveness),
                ):
                    why = run_jobs(
                        jobs, held_lease, self._liveness, partial(self._renew, engine, held_lease), self._stopping
                    )
            except (TooManyFailures, StoreLost):
                raise
            except Exception as e:
                why = e
            finally:
                with suppress(StoreError):  # the lease expires without it, too
                    lease.release(engine, held_lease)
            if why is not None:
                log.warning("reading stopped, and begins again in %.0f s: %s", PAUSE_S, error_summary(why))
                self._stopping.wait(PAUSE_S)

    def _renew(self, engine: Engine, held_lease: lease.Lease) -> None:
        """Renews the lease. Called only while the jobs and the judge make progress. Raises LeaseLost if the lease is
        lost. If the store does not answer, only logs a line."""
        try:
            lease.renew(engine, held_lease, wall_clock_ms())
        except StoreUnavailable:
            log.debug("the lease could not be renewed now")

    def _wait_for_lease(self, standby: Standby) -> lease.Lease | None:
        """Returns the lease; None if the application is to stop. Keeps trying while another instance has the lease, or
        the store does not answer."""
        logged = ""
        with self._liveness.part("the wait for the lease", BACKGROUND_S) as part:
            while not self._stopping.is_set():
                try:
                    if held_lease := standby.acquire(wall_clock_ms()):
                        return held_lease
                    why = "another instance writes this cluster: standing by"
                except StoreUnavailable as e:
                    why = f"waiting for the lease of this cluster: {e}"
                if why != logged:
                    log.info("%s", why)
                    logged = why
                part.step()
                self._stopping.wait(LOOK_EVERY_S)
        return None

    def _describe(self, engine: Engine, cluster_id: int, now_ms: int) -> float:
        """Stores the cluster's description, and returns the seconds until it is due again. A failure is only logged,
        because brokers, features and configs change rarely."""
        try:
            with KafkaClient(self._settings.client) as client:
                clusters.describe(engine, cluster_id, kafka_cluster.describe(client), now_ms)
        except (KafkaFailure, StoreError) as e:
            log.debug("the cluster could not be described: %s", e)
        return DESCRIBE_EVERY_S

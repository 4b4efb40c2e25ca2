"""The query that follows `__transaction_state`: from the store's positions, through Spark, into the store."""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from sqlalchemy import Engine

from service.domain.facts import LogBatch
from service.domain.transaction_log import SOURCE, TOPIC
from service.store import lease as leases
from service.store.errors import StoreError, StoreUnavailable
from service.store.lease import Lease
from service.store.writer import TransactionLogWriter
from spark_jobs.first_start import begin
from spark_jobs.progress import FirstReadProgress
from spark_jobs.reasons import reason
from spark_jobs.session import CORES
from spark_jobs.settings import IngestSettings
from spark_jobs.sinks import StoreSink
from spark_jobs.source.planner import wall_clock_ms
from spark_jobs.source.position import LogPosition
from spark_jobs.source.transaction_log import TransactionLogSource, source_options

log = logging.getLogger(__name__)

POLL_MS = 200
HEARTBEAT_MS = 1_000
RENEW_EVERY_S = 1.0


class TransactionStateJob:
    """Runs the query until `stopping`; every (re)start begins at what the store has."""

    def __init__(
        self,
        spark: SparkSession,
        settings: IngestSettings,
        engine: Engine,
        stopping: threading.Event,
    ) -> None:
        self._spark, self._engine, self._stopping = spark, engine, stopping
        self._client, self._checkpoint = settings.client, settings.checkpoint
        self._kept, self._history_ms = settings.rules.kept_prefixes, settings.keep.history
        spark.dataSource.register(TransactionLogSource)

    def run(self, lease: Lease) -> None:
        """One life of the query. Raises what ended it: a StoreError, a KafkaFailure, or Spark's own exception."""
        positions = begin(self._engine, lease, SOURCE, TOPIC, self._client, wall_clock_ms())
        kept = tuple(prefix.encode() for prefix in self._kept)
        writer = TransactionLogWriter(self._engine, lease, history_ms=self._history_ms, kept=kept)
        shown = FirstReadProgress(positions.values())

        def apply(batch: LogBatch, now_ms: int) -> None:
            writer.apply(batch, now_ms)
            shown.advance(sum(r.hi - r.lo for r in batch.ranges), now_ms)

        sink = StoreSink(apply)
        checkpoint = Path(tempfile.mkdtemp(prefix="transaction-state-", dir=self._scratch()))
        query = self._start(positions, sink, checkpoint)
        try:
            while query.isActive and sink.failure is None and not self._stopping.wait(RENEW_EVERY_S):
                self._renew(lease)
        finally:
            self._stop(query, sink)
            shutil.rmtree(checkpoint, ignore_errors=True)
        if not self._stopping.is_set():
            self._fail(writer, sink.failure or query.exception() or RuntimeError("the query ended by itself"))

    def _renew(self, lease: Lease) -> None:
        """A batch of history may take longer than a lease lasts. Raises LeaseLost."""
        try:
            leases.renew(self._engine, lease, wall_clock_ms())
        except StoreUnavailable:
            log.debug("the lease could not be renewed now")

    def _start(self, positions: dict[int, LogPosition], sink: StoreSink, checkpoint: Path) -> StreamingQuery:
        options = source_options(self._client, positions, CORES, POLL_MS, HEARTBEAT_MS, self._kept)
        return (
            self._spark.readStream.format(TransactionLogSource.name())
            .options(**options)
            .load()
            .writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(checkpoint))
            .trigger(processingTime="0 seconds")
            .queryName(SOURCE)
            .start()
        )

    def _stop(self, query: StreamingQuery, sink: StoreSink) -> None:
        """Between two batches: stopped within one, Spark prints a StackOverflowError of its own making."""
        if query.isActive:
            sink.wait_until_idle()
            query.stop()
        sink.close()

    def _fail(self, writer: TransactionLogWriter, failure: BaseException) -> NoReturn:
        with suppress(StoreError):
            writer.report_trouble(reason(failure), wall_clock_ms())
        raise failure

    def _scratch(self) -> Path | None:
        if self._checkpoint is not None:
            self._checkpoint.mkdir(parents=True, exist_ok=True)
        return self._checkpoint

"""Runs streaming queries: Spark reads from our sources and writes to a sink, until the query fails or has to end."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from spark_jobs.runtime.cluster import Executors
from spark_jobs.runtime.direct_batches import DirectBatches
from spark_jobs.runtime.session import CORES
from spark_jobs.runtime.sinks import StoreSink

_CHECK_EVERY_S: Final = 0.5


class StillStoring(Exception):
    """A query has ended, but the store has not yet answered the write of its last batch. Until the store answers, no
    new query may replace the ended one."""


class Queries:
    """Runs queries in one Spark session."""

    def __init__(self, spark: SparkSession, scratch: Path, executors: Executors | None = None) -> None:
        """`scratch`: the folder for checkpoints; each is removed at the end of its query. `executors`: the executors of
        a Spark cluster; None if Spark runs on this machine alone."""
        self._spark, self._scratch, self._executors = spark, scratch, executors
        self._registered: set[type[DataSource]] = set()

    def run(
        self,
        name: str,
        source: type[DataSource],
        options: Mapping[str, str],
        sink: StoreSink[Any],
        ending: threading.Event,
    ) -> None:
        """Runs a query with `options` and the options that every source gets. Returns once `ending` is set. Raises the
        failure that ended the query (the sink's, or Spark's own exception), StillStoring or SessionEnded."""
        if self._executors is not None:
            self._executors.wait(ending, sink.step)
        if source not in self._registered:
            self._spark.dataSource.register(source)
            self._registered.add(source)
        self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        checkpoint = tempfile.mkdtemp(prefix=f"{name}-", dir=self._scratch)
        direct = tempfile.mkdtemp(prefix=f"{name}-direct-", dir=self._scratch)
        sink.take_from(DirectBatches(direct))
        try:
            cores = CORES if self._executors is None else self._executors.cores
            self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", name)  # for this thread and the query's
            query = (
                self._spark.readStream.format(source.name())
                .options(**options, direct=direct, cores=str(cores))
                .load()
                .writeStream.foreachBatch(sink)
                .option("checkpointLocation", Path(checkpoint).resolve().as_uri())  # whatever Spark's file system is
                .trigger(processingTime="0 seconds")
                .queryName(name)
                .start()
            )
            try:
                is_working = None if self._executors is None else self._executors.watch(str(query.runId))
                while query.isActive and sink.failure is None and not ending.wait(_CHECK_EVERY_S):
                    if is_working is not None and is_working():
                        sink.step()  # executors on other machines cannot report steps themselves
            finally:
                if query.isActive:  # between two batches: within a batch, Spark would print a StackOverflowError
                    sink.wait_until_idle()
                    query.stop()
                has_stored = sink.close()
        finally:
            for folder in (checkpoint, direct):
                shutil.rmtree(folder, ignore_errors=True)
        if not has_stored:
            raise StillStoring(f"the store has not finished the last batch of {name}")
        if not ending.is_set():
            raise sink.failure or query.exception() or RuntimeError("the query ended by itself")

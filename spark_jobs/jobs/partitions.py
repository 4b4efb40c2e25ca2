"""The query that samples data partitions, and writes observations and reads into the store."""

from __future__ import annotations

import threading
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Engine

from service.domain.partitions.facts import PartitionsBatch
from service.domain.source_state import SourceName
from service.store.lease import Lease
from service.store.queries.partitions import stall_clocks
from service.store.writers.partitions import PartitionWriter
from spark_jobs.fold.partitions import batches_from_rows
from spark_jobs.runtime.error_summary import store_failures
from spark_jobs.runtime.liveness import Part
from spark_jobs.runtime.queries import Queries
from spark_jobs.runtime.sinks import StoreSink
from spark_jobs.settings import IngestSettings
from spark_jobs.source.partitions import PartitionsSource, sampler_options


class PartitionsJob:
    """Samples data partitions. After every start and restart, the job knows which LSOs were stalled before, and since
    when."""

    name = SourceName.PARTITIONS

    def __init__(
        self, queries: Queries, settings: IngestSettings, engine: Engine, scratch: Path, wake_judge: threading.Event
    ) -> None:
        """`wake_judge` is set when reads of stalled partitions have been stored."""
        self._queries, self._engine, self._scratch, self._wake_judge = queries, engine, scratch, wake_judge
        self._reader = settings.reader

    def run(self, lease: Lease, ending: threading.Event, part: Part) -> None:
        """Runs the query as `TransactionLogJob.run` does."""
        writer = PartitionWriter(self._engine, lease)

        def apply(batch: PartitionsBatch, now_ms: int, before_ms: int | None) -> None:
            if writer.apply(batch, now_ms, before_ms):
                self._wake_judge.set()

        with store_failures(writer):
            with self._engine.connect() as connection:
                clocks = stall_clocks(connection, lease.cluster_id)
            with TemporaryDirectory(prefix="windows-", dir=self._scratch, ignore_cleanup_errors=True) as folder:
                window_file = str(Path(folder) / "windows.db")
                options = sampler_options(self._reader, clocks, window_file, part.pulse)
                sink = StoreSink(batches_from_rows, apply, part.step)
                self._queries.run(SourceName.PARTITIONS, PartitionsSource, options, sink, ending)

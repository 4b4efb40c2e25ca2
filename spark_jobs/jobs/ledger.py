"""The query that tails data partitions (`--partitions all`). Reads from the stored positions on, and writes into the
store."""

from __future__ import annotations

import threading

from sqlalchemy import Engine

from service.domain.source_state import SourceName
from service.store.lease import Lease, check
from service.store.progress import keep_topics
from service.store.writers.marker_audit import forget_all, forget_untailed
from service.store.writers.partitions import LedgerWriter
from spark_jobs.first_read import log_position
from spark_jobs.fold.ledger import batches_from_rows
from spark_jobs.runtime.error_summary import store_failures
from spark_jobs.runtime.liveness import Part
from spark_jobs.runtime.queries import Queries
from spark_jobs.runtime.sinks import StoreSink
from spark_jobs.settings import IngestSettings
from spark_jobs.source.ledger import LedgerSource, ledger_options
from spark_jobs.source.log_identity import LogPosition


class LedgerJob:
    """Tails topics. After every start and restart, reading begins at the stored positions of the topics that are tailed
    now."""

    name = SourceName.LEDGER

    def __init__(self, queries: Queries, settings: IngestSettings, engine: Engine) -> None:
        self._queries, self._engine = queries, engine
        self._reader, self._watch = settings.reader, settings.watch

    def run(self, lease: Lease, ending: threading.Event, part: Part) -> None:
        """Runs the query as `TransactionLogJob.run` does."""
        writer = LedgerWriter(self._engine, lease)
        with store_failures(writer):
            positions = self._positions(lease)
            options = ledger_options(self._reader, positions, part.pulse)
            sink = StoreSink(batches_from_rows, writer.apply, part.step)
            self._queries.run(SourceName.LEDGER, LedgerSource, options, sink, ending)

    def _positions(self, lease: Lease) -> dict[str, dict[int, LogPosition]]:
        kept = keep_topics(self._engine, lease, SourceName.LEDGER, self._watch.tails)
        with self._engine.begin() as connection:
            check(connection, lease)
            forget_untailed(connection, lease.cluster_id, self._watch.tails)
        return {topic: {p: log_position(position) for p, position in of.items()} for topic, of in kept.items()}


def end_tailing(engine: Engine, lease: Lease) -> None:
    """Deletes the stored positions of tailing, and everything that waits for the marker audit. If tailing begins again
    later, it starts at the ends of the logs."""
    keep_topics(engine, lease, SourceName.LEDGER, lambda _: False)
    with engine.begin() as connection:
        check(connection, lease)
        forget_all(connection, lease.cluster_id)

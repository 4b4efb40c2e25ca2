"""The query that follows `__transaction_state`: it reads from the stored positions on, through Spark, and writes into
the store."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace

from sqlalchemy import Engine

from service.clock import wall_clock_ms
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import PartitionsUnreadable
from service.domain.source_state import SourceName
from service.domain.transaction_log.facts import LogBatch
from service.domain.transaction_log.states import TOPIC
from service.store import late_indexes
from service.store.backends import backend_of
from service.store.lease import Lease
from service.store.writers.transaction_log import TransactionLogWriter
from spark_jobs.first_read import FirstReadProgress, initial_positions
from spark_jobs.fold.rows import batches_from_rows
from spark_jobs.runtime.error_summary import reason_of, store_failures
from spark_jobs.runtime.liveness import Part
from spark_jobs.runtime.queries import Queries
from spark_jobs.runtime.sinks import StoreSink
from spark_jobs.settings import IngestSettings
from spark_jobs.source.transaction_log import TransactionLogSource, source_options

log = logging.getLogger("txnscope.ingest")

LATE_INDEXES_FROM = 100_000
"""If the history has at least this many offsets, the indexes of ids are built only after the first read."""


class TransactionLogJob:
    """Reads the transaction log. After every start and restart, reading begins at the stored positions."""

    name = SourceName.TRANSACTION_LOG

    def __init__(self, queries: Queries, settings: IngestSettings, engine: Engine) -> None:
        self._queries, self._engine, self._reader = queries, engine, settings.reader
        self._history_ms = settings.keep.history
        self._unreadable: PartitionsUnreadable | None = None
        self._absent: Reason | None = None
        self._audited = settings.watch.tails if settings.tails else None

    def run(self, lease: Lease, ending: threading.Event, part: Part) -> None:
        """Runs the query until `ending` is set. Raises what ended the query early: a StoreError, a KafkaFailure,
        Spark's own exception, SessionEnded, or StillStoring."""
        kept = tuple(prefix.encode() for prefix in self._reader.full_history_prefixes)
        writer = TransactionLogWriter(
            self._engine, lease, history_ms=self._history_ms, full_history_prefixes=kept, audited=self._audited
        )
        with store_failures(writer):
            try:
                self._run(writer, lease, ending, part)
            except Exception as e:
                if isinstance(found := reason_of(e), PartitionsUnreadable):
                    # the next queries read the other partitions until these can be read again
                    known = _offsets(self._unreadable) | _offsets(found)
                    self._unreadable = replace(found, partitions=tuple(known), offsets=tuple(known.values()))
                raise

    def _run(self, writer: TransactionLogWriter, lease: Lease, ending: threading.Event, part: Part) -> None:
        positions = initial_positions(self._engine, lease, self._reader.client, wall_clock_ms())
        shown = FirstReadProgress(positions.values())
        if shown.left >= LATE_INDEXES_FROM:
            late_indexes.drop_where_empty(self._engine)
        missing = late_indexes.missing(self._engine)
        if not positions:
            log.info("the brokers list no topic %s yet: it is read as soon as it exists", TOPIC)

        def apply(batch: LogBatch, now_ms: int, before_ms: int | None) -> None:
            self._log_absence(writer.apply(batch, now_ms, before_ms))
            shown.advance(sum(r.hi - r.lo for r in batch.ranges), now_ms)
            if shown.left:
                return
            if missing:  # one index after each batch, so that new records wait for one only
                late_indexes.build_one(self._engine, missing)
            else:
                backend_of(self._engine).extend_text_index(self._engine)

        options = source_options(self._reader, positions, part.pulse, self._unreadable)
        sink = StoreSink(batches_from_rows, apply, part.step)
        self._queries.run(SourceName.TRANSACTION_LOG, TransactionLogSource, options, sink, ending)

    def _log_absence(self, absent: Reason | None) -> None:
        """Logs the reason why there is no transaction log, unless the same reason was logged last."""
        if absent is not None and absent != self._absent:
            log.warning(
                "%s; without the log, hanging transactions are found from the coordinators' answers, and are reported"
                " as likely",
                absent,
            )
        self._absent = absent


def _offsets(unreadable: PartitionsUnreadable | None) -> dict[int, int]:
    """Returns a mapping from log partition to the first offset that could not be read there."""
    return {} if unreadable is None else dict(zip(unreadable.partitions, unreadable.offsets, strict=True))

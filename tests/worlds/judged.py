"""Runs the real store, writers and judge of txnscope. The model stands in for the brokers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from unittest.mock import patch

from sqlalchemy import Engine

from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Kind, Status
from service.domain.findings.rules import Rules
from service.domain.partitions.facts import FirstBatch, OpenEntry, PartitionObservation, PartitionsBatch, StalledRead
from service.domain.reasons.unread import NoLeader
from service.domain.source_state import SourceName
from service.domain.transaction_log.facts import NO_RECORD, Participants, RangeRead
from service.domain.transaction_log.facts import LogRecord as Stored
from service.domain.transaction_log.states import EXPIRED, TOPIC
from service.domain.worlds.order import encode
from service.kafka.cluster import Leader
from service.kafka.ends import Ends
from service.kafka.leader_check import CheckedPartition
from service.kafka.log_range import BatchesRead
from service.kafka.producers import ActiveProducer
from service.store import clusters, lease, migrate, progress
from service.store.engine import open_engine, open_reader
from service.store.writers.findings import FindingWriter, load
from service.store.writers.partitions import PartitionWriter
from service.store.writers.transaction_log import TransactionLogWriter
from spark_jobs.judge.disturbances import disturbances_at_start
from spark_jobs.judge.judge import Judge
from spark_jobs.judge.open_entries import OpenEntryObserver
from spark_jobs.judge.partition_prober import Answers, Questions
from tests.helpers.clocks import no_work
from tests.service.store.logs import Entry, batch
from tests.worlds.cluster import JUDGED, Batch, Cluster, LogRecord
from tests.worlds.observer import (
    LOG_PARTITION,
    Observer,
    facts_of,
    history_of,
    last_stable_offset,
    markers_before,
    open_entries,
)

PLACE: Final = (JUDGED, 0)
TIMEOUT_MS: Final = 900_000
"""Transaction timeout, longer than nearly every history. The model itself decides which transactions time out."""
_BROKER: Final = 1


class Store(NamedTuple):
    """A store for many histories, each with clusters of its own."""

    engine: Engine
    reader: Engine


@contextmanager
def opened_store(folder: Path) -> Iterator[Store]:
    """Yields a new store. Until the `with` block ends, the pauses with which judges save CPU are switched off."""
    url = f"sqlite:///{folder / 'worlds.db'}"
    engine, reader = open_engine(url), open_reader(url)
    migrate.upgrade(engine)
    try:
        with (
            patch("spark_jobs.judge.judge.PAUSE_FACTOR", 0),
            patch("spark_jobs.judge.judge.PARTITIONS_PAUSE_FACTOR", 0),
        ):
            yield Store(engine, reader)
    finally:
        reader.dispose()
        engine.dispose()


class _Prober:
    """A prober that keeps the judge's questions until the model answers them."""

    def __init__(self) -> None:
        self.asked: list[Questions] = []
        self.ready: list[Answers] = []

    def ask(self, questions: Questions) -> bool:
        self.asked.append(questions)
        return True

    def answers(self) -> list[Answers]:
        ready, self.ready = self.ready, []
        return ready


class Judged:
    """An application that starts now, for the cluster `name`. If the store already has a cluster of that name, the
    application continues with its data."""

    def __init__(
        self, store: Store, cluster: Cluster, observer: Observer, name: str, skew_ms: int, log_partitions: int
    ) -> None:
        """Starts the application. `skew_ms`: the error of our host's clock. `log_partitions`: number of partitions of
        the transaction log."""
        self._log_partitions = log_partitions
        self._store, self._cluster, self._observer, self._skew_ms = store, cluster, observer, skew_ms
        self._id = clusters.bind(store.engine, name, f"kafka-{name}", self.now_ms)
        held = lease.acquire(store.engine, self._id, "driver", self.now_ms)
        assert held is not None
        start = progress.PartitionStart(LOG_PARTITION, "L", _BROKER, 0, 0, cluster.log_high_watermark)
        at = progress.start_positions(store.engine, held, SourceName.TRANSACTION_LOG, TOPIC, [start], self.now_ms)
        self._next_offset, self._counted_from = at[LOG_PARTITION].next_offset, at[LOG_PARTITION].counted_from
        self._log = TransactionLogWriter(store.engine, held)
        self._partitions = PartitionWriter(store.engine, held)
        with store.reader.connect() as connection:
            disturbances = disturbances_at_start(connection, self._id, self.now_ms)
        self._prober = _Prober()
        looks = OpenEntryObserver(self._id, self._prober, "broker:9092", disturbances)  # type: ignore[arg-type]
        writer = FindingWriter(store.engine, held)
        self._judge = Judge(store.reader, writer, self._id, Rules(()), partitions=looks, processor_s=no_work)
        self._stood: tuple[int, int] | None = None

    @property
    def now_ms(self) -> int:
        return self._cluster.now_ms + self._skew_ms

    def round(self) -> list[Finding]:
        """Answers the judge's questions, reads the log, samples the partition, and judges. Returns the confirmed
        hanging findings."""
        self._answer()
        self._read_log()
        self._look()
        self._judge.round(self.now_ms)
        with self._store.reader.connect() as connection:
            known = load(connection, self._id, self.now_ms)
        return [
            finding
            for (kind, _), finding in known.items()
            if kind == Kind.HANGING and finding.status == Status.CONFIRMED
        ]

    def _read_log(self) -> None:
        if not self._cluster.log_tells_its_end:
            return
        end = max(self._cluster.log_high_watermark, self._next_offset)
        if self._next_offset < self._counted_from <= end:
            self._read_to(self._counted_from)
        self._read_to(end)

    def _read_to(self, hi: int) -> None:
        cluster, lo = self._cluster, self._next_offset
        gone = [record.offset for record in cluster.log[lo:hi] if record.is_removed]
        read = RangeRead(
            partition=LOG_PARTITION,
            topic_id="L",
            generation=0,
            lo=lo,
            hi=hi,
            leader=_BROKER,
            leader_epoch=cluster.coordinator_epoch,
            log_start=0,
            end_offset=hi,
            end_asked_at_ms=self.now_ms,
            records=hi - lo - len(gone),
            bytes=100 * (hi - lo),
            gap=None,
            counts=lo >= self._counted_from,
            missing=len(gone),
            hole_end=gone[-1] + 1 if gone else 0,
            topic_partitions=self._log_partitions,
        )
        entries = [_entry(record) for record in cluster.log[lo:hi] if not record.is_removed]
        self._log.apply(batch(entries, read), self.now_ms)
        self._next_offset = hi

    def _look(self) -> None:
        cluster, at_ms = self._cluster, self.now_ms
        if not cluster.tells_its_end:
            silent = PartitionObservation(*PLACE, "T", -1, -1, -1, -1, -1, at_ms, None, NoLeader())
            self._partitions.apply(PartitionsBatch(at_ms, (silent,), is_full=True), at_ms)
            return
        ends = self._ends()
        lso, hw = ends.last_stable_offset, ends.high_watermark
        stands = lso < hw
        self._stood = (self._stood if self._stood and self._stood[0] == lso else (lso, at_ms)) if stands else None
        look = PartitionObservation(
            *PLACE,
            topic_id="T",
            leader=_BROKER,
            leader_epoch=cluster.leader_epoch,
            log_start=0,
            last_stable_offset=lso,
            high_watermark=hw,
            observed_at_ms=at_ms,
            stalled_since_ms=self._stood[1] if self._stood else None,
            samples=encode(self._observer.samples()) if stands else None,
        )
        reads = (self._described(lso, at_ms),) if stands else ()
        self._partitions.apply(PartitionsBatch(at_ms, (look,), reads, is_full=True), at_ms)

    def _described(self, lso: int, at_ms: int) -> StalledRead:
        opened = tuple(
            OpenEntry(
                producer.producer_id,
                producer.producer_epoch,
                producer.transaction_start_offset,
                -1,
                producer.last_timestamp_ms,
            )
            for producer in self._open()
        )
        at = self._cluster.data[lso]
        first = FirstBatch(at.offset, at.producer_id, at.epoch, True, at.is_marker, at.timestamp_ms, at.timestamp_ms)
        return StalledRead(*PLACE, "T", lso, at_ms, first, True, opened)

    def _ends(self) -> Ends:
        return Ends(0, last_stable_offset(self._cluster), self._cluster.high_watermark, 0)

    def _open(self) -> list[ActiveProducer]:
        return [
            ActiveProducer(pid, of_it[-1].epoch, 0, of_it[-1].timestamp_ms, -1, of_it[0].offset)
            for pid, of_it in open_entries(self._cluster).items()
        ]

    def _answer(self) -> None:
        for questions in self._prober.asked:
            self._prober.ready.append(self._answers(questions))
        self._prober.asked.clear()

    def _answers(self, questions: Questions) -> Answers:
        cluster, at_ms = self._cluster, self.now_ms
        answers = Answers(log_asked_at_ms=at_ms)
        if cluster.log_tells_its_end:
            answers.log_ends[LOG_PARTITION] = cluster.log_high_watermark
            answers.log_leaders[LOG_PARTITION] = _BROKER, cluster.coordinator_epoch
        if not cluster.tells_its_end:
            return answers
        leader = Leader(_BROKER, cluster.leader_epoch)
        answers.seen[PLACE] = CheckedPartition(*PLACE, "T", at_ms, leader, self._ends(), True, tuple(self._open()))
        there = {(pid, of_it[0].offset): of_it for pid, of_it in open_entries(cluster).items()}
        for key, from_offset in questions.entries.items():
            if (key.producer_id, key.start_offset) not in there:
                later = markers_before(cluster, key.producer_id, len(cluster.data), from_offset)
                answers.ended[key] = BatchesRead(later, (), len(cluster.data), True, from_offset)
        for key, asked in questions.facts.items():
            if (found := there.get((key.producer_id, key.start_offset))) is not None:
                history = history_of(cluster) if asked.transactional_id else None
                facts = facts_of(cluster, history, found)._replace(read_at_ms=at_ms)
                answers.facts[key] = asked, facts
        return answers


def _entry(log_record: LogRecord) -> Entry:
    if log_record.state == EXPIRED:
        return Entry(
            log_record.key.encode(),
            NO_RECORD._replace(offset=log_record.offset, timestamp_ms=log_record.timestamp_ms, state=EXPIRED),
            (),
        )
    record = Stored(
        offset=log_record.offset,
        timestamp_ms=log_record.timestamp_ms,
        leader_epoch=log_record.leader_epoch,
        state=log_record.state,
        producer_id=log_record.producer_id,
        producer_epoch=log_record.producer_epoch,
        timeout_ms=TIMEOUT_MS,
        last_update_ms=log_record.timestamp_ms,
        start_ms=log_record.start_ms,
        client_transaction_version=log_record.version,
        previous_producer_id=log_record.previous_producer_id,
        partition_count=len(log_record.partitions),
    )
    return Entry(
        log_record.key.encode(), record, tuple(Participants(topic, (0,)) for topic in sorted(log_record.partitions))
    )


def batches_of(cluster: Cluster, finding: Finding) -> list[Batch] | None:
    """Returns the batches of the finding's entry, or None if the entry is not open any more."""
    found = open_entries(cluster).get(finding.subject.producer_id or -1, [])
    return found if found and found[0].offset == finding.subject.start_offset else None

"""The facts of the model that txnscope can observe: samples of the partition and of the end of the log, and the content
of both logs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from service.domain.transaction_log.facts import NO_RECORD
from service.domain.worlds.facts import Batches, EntryFacts, EntryQuery, FirstBatch
from service.domain.worlds.markers import Marker
from service.domain.worlds.order import LogEnd, Sample
from service.domain.worlds.proving import verdict_on
from service.domain.worlds.transactions import Epochs, LogHistory, Range
from service.domain.worlds.verdict import Verdict
from spark_jobs.source.watched import Rounds, Samples
from tests.worlds.cluster import JUDGED, Batch, Cluster

LOG_PARTITION: Final = 3
"""The partition of the transaction log to which `id` hashes if the log has four partitions. The coordinator of `id`
leads it."""


@dataclass(slots=True)
class Observer:
    """Requests the ends of the transaction log and of the partition in rounds, while the observer runs. The requests of
    a round are sent at the same time, and may be answered in any order."""

    cluster: Cluster
    is_running: bool = False
    began_at: int = 0
    """End offset of the partition when the observer was started."""
    _rounds: Rounds = field(default_factory=Rounds)
    _samples: Samples = field(default_factory=Samples)
    _log_end: LogEnd | None = None
    _is_partition_asked: bool = False
    _partition: tuple[int, int, int] | None = None

    def start(self) -> None:
        self._forget()
        self.is_running, self.began_at = True, len(self.cluster.data)

    def stop(self) -> None:
        self._forget()
        self.is_running = False

    def _forget(self) -> None:
        self._rounds, self._samples = Rounds(), Samples()
        self._begin_round()

    def _begin_round(self) -> None:
        self._rounds.begin()
        self._log_end, self._partition, self._is_partition_asked = None, None, False

    def sample_log(self) -> None:
        if self.is_running and self._log_end is None:
            self._log_end = LogEnd(self.cluster.log_high_watermark, self.cluster.coordinator_epoch)
            self._end_round()

    def sample_partition(self) -> None:
        if self.is_running and not self._is_partition_asked:
            self._is_partition_asked = True
            if self.cluster.has_leader:
                ends = self.cluster.high_watermark, self.cluster.leader_epoch
                self._partition = *ends, last_stable_offset(self.cluster)
            self._end_round()

    def _end_round(self) -> None:
        if self._log_end is None or not self._is_partition_asked:
            return
        self._rounds.set_ends({LOG_PARTITION: self._log_end})
        if self._partition is not None:
            self._samples.add_round(self._rounds, *self._partition)
        self._begin_round()

    def samples(self) -> tuple[Sample, ...]:
        """Returns the samples that the sampler would report now."""
        return self._samples.selected(self._rounds, last_stable_offset(self.cluster))


def history_of(cluster: Cluster) -> LogHistory:
    """Returns the remaining content of the transaction log: the records of the id, and the offsets of removed
    records."""
    holes = tuple(Range(record.offset, record.offset + 1) for record in cluster.log if record.is_removed)
    kept = [record for record in cluster.log if record.key == "id" and not record.is_removed]
    records = tuple(
        NO_RECORD._replace(
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            leader_epoch=record.leader_epoch,
            state=record.state,
            producer_id=record.producer_id,
            producer_epoch=record.producer_epoch,
            client_transaction_version=record.version,
            previous_producer_id=record.previous_producer_id,
            start_ms=record.start_ms,
        )
        for record in kept
    )
    listing = frozenset(record.offset for record in kept if JUDGED in record.partitions)
    return LogHistory(LOG_PARTITION, len(cluster.log), records, listing, holes)


def open_entries(cluster: Cluster) -> dict[int, list[Batch]]:
    """Returns a mapping from each producer id to its data batches that no marker has ended."""
    found: dict[int, list[Batch]] = {}
    for batch in cluster.data:
        if batch.is_marker:
            found.pop(batch.producer_id, None)
        elif batch.producer_id >= 0:
            found.setdefault(batch.producer_id, []).append(batch)
    return found


def last_stable_offset(cluster: Cluster) -> int:
    """Returns the offset at which the oldest open entry begins, but at most the high watermark."""
    firsts = [batches[0].offset for batches in open_entries(cluster).values()]
    return min([cluster.high_watermark, *firsts])


def markers_before(cluster: Cluster, producer_id: int, offset: int, since: int = 0) -> tuple[Marker, ...]:
    return tuple(
        Marker(
            batch.offset, batch.epoch, batch.timestamp_ms, batch.is_commit, batch.leader_epoch, batch.coordinator_epoch
        )
        for batch in cluster.data
        if batch.is_marker and batch.producer_id == producer_id and since <= batch.offset < offset
    )


def facts_of(cluster: Cluster, history: LogHistory | None, batches: list[Batch], markers_from: int = 0) -> EntryFacts:
    """Returns the facts about the entry of `batches`, as if everything was read except the markers below the offset
    `markers_from`."""
    first, last = batches[0], batches[-1]
    earlier = [batch for batch in cluster.data[: first.offset] if batch.producer_id == first.producer_id]
    is_first = not markers_from and all(batch.epoch != first.epoch or batch.is_marker for batch in earlier)
    return EntryFacts(
        history=history,
        markers=markers_before(cluster, first.producer_id, first.offset, markers_from),
        markers_from=markers_from,
        batches=Batches(
            start_offset=first.offset,
            last_offset=last.offset,
            epochs=Epochs(min(batch.epoch for batch in batches), max(batch.epoch for batch in batches)),
            first=FirstBatch(first.epoch, first.sequence, first.timestamp_ms, first.leader_epoch, is_first),
            last_leader_epoch=last.leader_epoch,
            is_whole=True,
            is_single=len(batches) == 1,
        ),
        read_at_ms=cluster.now_ms,
        leader_epoch=cluster.leader_epoch,
    )


def verdict(
    cluster: Cluster, observer: Observer, producer_id: int, batches: list[Batch], markers_from: int = 0
) -> Verdict:
    """Returns the verdict on the entry of `batches`, as if everything was read except the markers below the offset
    `markers_from`."""
    query = EntryQuery(
        topic="judged",
        partition=0,
        producer_id=producer_id,
        producer_epoch=batches[-1].epoch,
        start_offset=batches[0].offset,
        newest_ms=max(batch.timestamp_ms for batch in batches),
        transactional_id=b"id",
        log_partition=LOG_PARTITION,
        samples=observer.samples(),
        is_deep=True,
    )
    return verdict_on(query, facts_of(cluster, history_of(cluster), batches, markers_from), ())


def verdict_without_owner(cluster: Cluster, batches: list[Batch]) -> Verdict:
    """Returns the verdict on the entry of `batches` if its producer id belongs to no transactional.id, as a read of the
    whole transaction log has shown."""
    query = EntryQuery(
        topic="judged",
        partition=0,
        producer_id=batches[0].producer_id,
        producer_epoch=batches[-1].epoch,
        start_offset=batches[0].offset,
        newest_ms=max(batch.timestamp_ms for batch in batches),
        transactional_id=None,
        log_partition=-1,
        samples=(),
        is_deep=True,
    )
    return verdict_on(query, facts_of(cluster, None, batches), ())

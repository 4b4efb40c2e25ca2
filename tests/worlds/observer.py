"""What txnscope can see of the model: looks at the partition and the log's end, and both logs read when it judges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from service.domain.worlds.facts import Batches, EntryRead
from service.domain.worlds.markers import Marker
from service.domain.worlds.order import LogEnd, Sample
from service.domain.worlds.proving import judge
from service.domain.worlds.transactions import (
    Epochs,
    IdRecord,
    LogHistory,
    Range,
    transactions_of,
)
from service.domain.worlds.verdict import Verdict
from tests.worlds.cluster import JUDGED, Batch, Cluster

LOG_PARTITION: Final = 7


@dataclass(slots=True)
class Round:
    """The answers to one round of questions, which are asked at the same time and answered in any order."""

    log_end: LogEnd | None = None
    partition: tuple[int, int] | None = None
    """High watermark and leader epoch; None: no leader answered."""
    is_partition_asked: bool = False


@dataclass(slots=True)
class Observer:
    """Samples the transaction log's end and the partition's high watermark, round after round, while it runs."""

    cluster: Cluster
    is_running: bool = False
    rounds: list[Round] = field(default_factory=lambda: [Round()])
    began_at: int = 0
    """Where the partition ended when it was started."""

    def start(self) -> None:
        self.is_running, self.rounds, self.began_at = True, [Round()], len(self.cluster.data)

    def stop(self) -> None:
        """What it has sampled goes with it."""
        self.is_running, self.rounds = False, [Round()]

    def sample_log(self) -> None:
        if self.is_running and self.rounds[-1].log_end is None:
            self.rounds[-1].log_end = LogEnd(self.cluster.log_high_watermark, self.cluster.coordinator_epoch)
            self._end_round()

    def sample_partition(self) -> None:
        one = self.rounds[-1]
        if self.is_running and not one.is_partition_asked:
            one.is_partition_asked = True
            if self.cluster.has_leader:
                one.partition = self.cluster.high_watermark, self.cluster.leader_epoch
            self._end_round()

    def _end_round(self) -> None:
        if self.rounds[-1].log_end is not None and self.rounds[-1].is_partition_asked:
            self.rounds.append(Round())

    def samples(self) -> tuple[Sample, ...]:
        """One for each round in which the partition answered."""
        rounds, found, known = self.rounds[:-1], [], [0]
        for number, one in enumerate(rounds):
            if one.partition is not None:
                until = rounds[number - 1].log_end if number else None
                since = rounds[number + 1].log_end if number + 1 < len(rounds) else None
                found.append(
                    Sample(
                        *one.partition,
                        known[number - 1] if number > 1 else 0,
                        {} if until is None else {LOG_PARTITION: until},
                        {} if since is None else {LOG_PARTITION: since},
                    )
                )
            known.append(known[-1] if one.partition is None else one.partition[0])
        return tuple(found)


def history_of(cluster: Cluster) -> LogHistory:
    """What the log still holds."""
    holes = tuple(Range(one.offset, one.offset + 1) for one in cluster.log if one.is_removed)
    records = tuple(
        IdRecord(
            offset=one.offset,
            timestamp_ms=one.timestamp_ms,
            leader_epoch=one.leader_epoch,
            state=one.state,
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            client_transaction_version=one.version,
            previous_producer_id=one.previous_producer_id,
            start_ms=one.start_ms,
            lists=JUDGED in one.partitions,
        )
        for one in cluster.log
        if one.key == "id" and not one.is_removed
    )
    return LogHistory(LOG_PARTITION, len(cluster.log), records, holes)


def open_entries(cluster: Cluster) -> dict[int, list[Batch]]:
    """By producer id, the data batches that no marker has ended."""
    found: dict[int, list[Batch]] = {}
    for one in cluster.data:
        if one.is_marker:
            found.pop(one.producer_id, None)
        elif one.producer_id >= 0:
            found.setdefault(one.producer_id, []).append(one)
    return found


def markers_before(cluster: Cluster, producer_id: int, offset: int) -> tuple[Marker, ...]:
    return tuple(
        Marker(one.offset, one.epoch, one.timestamp_ms, one.is_commit, one.leader_epoch, one.coordinator_epoch)
        for one in cluster.data
        if one.is_marker and one.producer_id == producer_id and one.offset < offset
    )


def read_whole(batches: list[Batch]) -> Batches:
    """The open batches of a producer id."""
    first, last = batches[0], batches[-1]
    epochs = Epochs(min(one.epoch for one in batches), max(one.epoch for one in batches))
    return Batches(first.offset, last.offset, epochs, first.leader_epoch, last.leader_epoch, True)


def verdict(cluster: Cluster, observer: Observer, producer_id: int, batches: list[Batch]) -> Verdict:
    entry = EntryRead(
        place="judged-0",
        newest_ms=max(one.timestamp_ms for one in batches),
        batches=read_whole(batches),
        markers=markers_before(cluster, producer_id, batches[0].offset),
        samples=observer.samples(),
        read_at_ms=cluster.now_ms,
    )
    known, unseen = transactions_of(producer_id, history_of(cluster))
    return judge(entry, LOG_PARTITION, known, unseen)

"""Values that the partition sampler reads and the store keeps: samples of data partitions and their open entries.

Everything is frozen and plain. Fields `…_ms` are milliseconds since the epoch. The time of a sample is taken before its
request is sent, so an entry that the answer reports had not ended by that time.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final, NamedTuple

from service.domain.reasons.reason import Reason

TopicPartition = tuple[str, int]
"""Topic and partition."""


class LogPlace(NamedTuple):
    """An offset in the log of a partition."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


EPOCH_NOT_REPORTED: Final = -2
"""Stands for a coordinator epoch that the broker did not report. Kafka's own -1 means that the leader's producer state
knows no marker of the producer id: none was written to the partition, or none since that state last expired
(producer.id.expiration.ms)."""


class PartitionEnds(NamedTuple):
    """A partition with its leader according to the cluster's metadata, and its offsets as that leader reported them. An
    offset that the leader did not report is -1."""

    topic: str
    partition: int
    topic_id: str
    leader: int
    leader_epoch: int
    log_start: int = -1
    last_stable_offset: int = -1
    high_watermark: int = -1

    @property
    def topic_partition(self) -> TopicPartition:
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class PartitionObservation:
    """A sample of one partition, beginning with the fields of PartitionEnds. `why`: the reason if the partition could
    not be sampled; the offsets are -1 then. `is_gone`: the partition or its topic does not exist any more, or another
    topic has the name now.

    `stalled_since_ms`: the time since which the LSO has been at its last known offset, below the high watermark; None
    if the LSO is at the high watermark, if it was first seen at this offset less than 0.2 s before the last answer
    (`spark_jobs.source.watched`), or if `is_gone`. `samples`: earlier samples as text
    (`service.domain.worlds.order.decode`), which can prove the order of writes; None if the partition is not stalled,
    or could not be sampled.
    """

    topic: str
    partition: int
    topic_id: str
    leader: int
    leader_epoch: int
    log_start: int
    last_stable_offset: int
    high_watermark: int
    observed_at_ms: int
    stalled_since_ms: int | None
    why: Reason | None = None
    is_gone: bool = False
    samples: str | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        return self.topic, self.partition


OBSERVED: Final = tuple(field.name for field in fields(PartitionObservation))
"""The names of the fields of an observation, which are also the names of its columns in Arrow and in the store."""


def observed_values(seen: PartitionObservation) -> dict[str, Any]:
    """Returns the fields of an observation, keyed by name, from which an object of a subclass can be built."""
    return {name: getattr(seen, name) for name in OBSERVED}


class StallClock(NamedTuple):
    """The stall of a partition at one offset, kept across restarts. `samples` as in PartitionObservation."""

    topic: str
    partition: int
    topic_id: str
    last_stable_offset: int
    stalled_since_ms: int
    samples: str | None = None


class FirstBatch(NamedTuple):
    """The header of the batch at the LSO. `base_offset` may lie below the LSO. Timestamps are by the producer's
    clock."""

    base_offset: int
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    is_control: bool
    first_timestamp_ms: int
    max_timestamp_ms: int


class OpenEntry(NamedTuple):
    """A transaction that is open on the partition, from the leader's producer state (DescribeProducers) or a window of
    batch headers. `coordinator_epoch`: the coordinator's epoch in the last marker of this producer id; -1 if the leader
    knows no marker; EPOCH_NOT_REPORTED if the broker does not report it. `last_timestamp_ms`: the timestamp of the
    newest batch, by the producer's clock; -1 if there is none. `records`, `bytes`: the number of records and the size
    of the entry's batches between LSO and high watermark; None unless that whole window was read."""

    producer_id: int
    producer_epoch: int
    start_offset: int
    coordinator_epoch: int
    last_timestamp_ms: int
    records: int | None = None
    bytes: int | None = None


class StalledRead(NamedTuple):
    """The data that was read of a stalled partition. `described`: True if `entries` come from DescribeProducers; then
    they are complete. If False, they come from a window of headers, and are complete only if `is_whole`. `why`: the
    reason if something could not be read; `described` and `first` show which part was read.

    `is_whole`: every batch from the LSO to the high watermark was read; `lag_bytes` is their total size, or None if not
    all were read."""

    topic: str
    partition: int
    topic_id: str
    last_stable_offset: int
    read_at_ms: int
    first: FirstBatch | None
    described: bool
    entries: tuple[OpenEntry, ...]
    is_whole: bool = False
    lag_bytes: int | None = None
    why: Reason | None = None


class PartitionsBatch(NamedTuple):
    """Everything that one micro-batch of the sampler read. `observed_at_ms`: the time of its last sample of all watched
    partitions.

    `is_full`: `observations` has all watched partitions; all others in the store count as unwatched. `not_covered`: the
    number of partitions that exist and are not watched, because `--topics` leaves them out or because they are
    mirrored. `trouble`: the reason why not all partitions could be sampled; None if all brokers answered."""

    observed_at_ms: int
    observations: tuple[PartitionObservation, ...] = ()
    reads: tuple[StalledRead, ...] = ()
    is_full: bool = False
    not_covered: int = 0
    trouble: Reason | None = None


class MarkerType(StrEnum):
    """The outcome that a control batch writes."""

    COMMIT = "COMMIT"
    ABORT = "ABORT"


class BatchOffsets(NamedTuple):
    """A batch: offsets [first, next), including those whose records compaction removed. `marker`: COMMIT or ABORT; None
    for a data batch, and for a control batch that compaction emptied or that is no transaction marker. `timestamp_ms`:
    the timestamp of the marker, or of the first record. `records`: number of records that compaction left; None: as
    many as the batch has offsets."""

    first: int
    next: int
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    is_control: bool = False
    marker: MarkerType | None = None
    timestamp_ms: int = -1
    records: int | None = None

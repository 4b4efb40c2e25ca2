"""Values read while data partitions are tailed: their volume by minute, and the markers that ended transactions there.

Everything is frozen and plain. Unlike the samples of `service.domain.partitions.facts`, these values count every batch
once: in the range that contains the last offset of the batch."""

from __future__ import annotations

from typing import Final, NamedTuple

from service.domain.partitions.facts import MarkerType
from service.domain.reasons.reason import Reason
from service.domain.transaction_log.facts import RangeRead

NOTHING: Final = -1


class TopicRange(NamedTuple):
    """A range of offsets of a partition of `topic` that was read, or is to be read."""

    topic: str
    read: RangeRead

    @property
    def leader(self) -> int:
        return self.read.leader

    @property
    def lo(self) -> int:
        return self.read.lo

    @property
    def hi(self) -> int:
        return self.read.hi


class Volume(NamedTuple):
    """The volume of a partition's batches in one minute, by their timestamps. A batch whose timestamp is a day old or
    older, or lies in the future, counts for the minute in which it is read. `bytes`: the size of whole batches as
    stored in the log, with markers. `records`: the number of records without markers."""

    topic: str
    partition: int
    minute_ms: int
    records: int
    bytes: int
    transactional_records: int
    commits: int
    aborts: int


class Marker(NamedTuple):
    """A control record that ended a transaction on a partition, at `at_ms` by the leader's clock. `generation`: the
    generation of the log (`service.domain.transaction_log.facts.RangeRead`). `ends_from`: the offset of the first
    record that the marker ended, among the records that were read; NOTHING if none of them was read."""

    topic: str
    partition: int
    generation: int
    offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    at_ms: int
    ends_from: int = NOTHING

    @property
    def marker(self) -> MarkerType:
        return MarkerType.COMMIT if self.is_commit else MarkerType.ABORT


class Unended(NamedTuple):
    """Transactional records of a producer id that no marker has ended yet, as far as the log was read. The first of
    them is at `from_offset`."""

    topic: str
    partition: int
    producer_id: int
    from_offset: int


class LedgerBatch(NamedTuple):
    """Everything that one micro-batch read. `trouble`: the reason if not everything could be read."""

    ranges: tuple[TopicRange, ...]
    volumes: tuple[Volume, ...] = ()
    markers: tuple[Marker, ...] = ()
    trouble: Reason | None = None
    unended: tuple[Unended, ...] = ()

"""The question to the brokers about an open entry, and their answer, from which the verdict is derived."""

from __future__ import annotations

from typing import NamedTuple

from service.domain.partitions.facts import LogPlace
from service.domain.partitions.open_entries import Entry, Owner
from service.domain.worlds.markers import Marker
from service.domain.worlds.order import AbsenceProof, LogPosition, Sample
from service.domain.worlds.transactions import Epochs, LogHistory


class EntryQuery(NamedTuple):
    """An open entry, and the owner of its producer id. If no owner is known, `transactional_id` is None and
    `log_partition` is -1.

    `newest_ms`: timestamp of the entry's newest record, by the producer's clock. `is_deep`: True to read as far back as
    the bounds allow, False to read back only to the point where samples prove that the entry was absent.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int
    newest_ms: int
    transactional_id: bytes | None
    log_partition: int
    samples: tuple[Sample, ...]
    is_deep: bool


def entry_query(entry: Entry, owner: Owner | None, samples: tuple[Sample, ...], *, is_deep: bool) -> EntryQuery:
    """Returns the question to put to the brokers about the entry."""
    return EntryQuery(
        topic=entry.topic,
        partition=entry.partition,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        start_offset=entry.start_offset,
        newest_ms=entry.last_timestamp_ms,
        transactional_id=None if owner is None else owner.transactional_id,
        log_partition=-1 if owner is None else owner.log_partition,
        samples=samples,
        is_deep=is_deep,
    )


class FirstBatch(NamedTuple):
    """The batch that began the entry. `first_timestamp_ms`: the timestamp of its first record, by the producer's clock.
    `leader_epoch`: the epoch of the leader that wrote the batch. `is_first_of_epoch`: True if the partition's log was
    read from offset 0 to the entry, and has no earlier batch of the entry's producer id and epoch."""

    producer_epoch: int
    sequence: int
    first_timestamp_ms: int
    leader_epoch: int
    is_first_of_epoch: bool


class Batches(NamedTuple):
    """The producer id's data batches from the entry's start to the high watermark.

    `is_whole`: True if there are such batches, and all of them were read. Otherwise `last_offset` is `start_offset`,
    and `epochs` reaches from the highest epoch of the markers before the entry (0 without markers) to the epoch in the
    producer state. `first` is None if the batch at `start_offset` was not read. `last_leader_epoch`: the leader epoch
    of the batch at `last_offset`; -1 unless `is_whole`. `is_single`: True if `is_whole`, and the entry is one batch.
    """

    start_offset: int
    last_offset: int
    epochs: Epochs
    first: FirstBatch | None
    last_leader_epoch: int
    is_whole: bool
    is_single: bool = False


class EntryFacts(NamedTuple):
    """The brokers' answer about an entry, read at `read_at_ms`. `history`: None if the producer id has no known owner.

    `markers`: the newest markers before the entry, or all of them, oldest first; empty if the offsets right before the
    entry could not be read. `markers_from`: the offset from which everything up to the entry was read, so that no other
    marker lies in that range. `leader_epoch`: the epoch of the partition's present leader.
    """

    history: LogHistory | None
    markers: tuple[Marker, ...]
    markers_from: int
    batches: Batches
    read_at_ms: int
    leader_epoch: int


class EntryRead(NamedTuple):
    """An open entry: the question about it, and the facts that were read."""

    query: EntryQuery
    facts: EntryFacts

    @property
    def location(self) -> LogPlace:
        return LogPlace(self.query.topic, self.query.partition, self.facts.batches.start_offset)

    def absence_proofs(self, log_partition: int) -> list[AbsenceProof]:
        """Returns the proofs of the entry's absence that samples give for this log partition, oldest first."""
        at = self.facts.batches
        leader_epoch = -1 if at.first is None else at.first.leader_epoch
        return [
            AbsenceProof(
                sample.ends_before_last[log_partition].offset,
                sample.high_watermark,
                sample.leader_epoch,
                sample.earlier_high_watermark,
                sample.ends_before_last[log_partition].leader_epoch,
            )
            for sample in self.query.samples
            if log_partition in sample.ends_before_last
            and sample.high_watermark <= at.start_offset
            and sample.leader_epoch == leader_epoch
        ]

    def newest_absence_proof(self, log_partition: int) -> AbsenceProof | None:
        """Returns the newest of `absence_proofs`; None if there is none."""
        return next(reversed(self.absence_proofs(log_partition)), None)

    def was_written_before(self, log_partition: int, record: LogPosition) -> bool:
        """Returns whether samples prove that the whole entry was written before a client could know of `record`, a
        record of the transaction log."""
        at = self.facts.batches
        for sample in self.query.samples if at.is_whole else ():
            end = sample.ends_after_first.get(log_partition)
            if end is None or sample.high_watermark <= at.last_offset or sample.leader_epoch < at.last_leader_epoch:
                continue
            if end.offset <= record.offset and end.leader_epoch == record.leader_epoch:
                return True
        return False

"""Applies observations and reads to the rows of partitions and to their open entries. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from service.domain.partitions.facts import OpenEntry, PartitionObservation, StalledRead, TopicPartition
from service.domain.partitions.open_entries import Entry
from service.domain.reasons.reason import Reason


class ObservedRow(NamedTuple):
    """The columns of `data_partitions` that an observation writes, in their order; then the time of the last read."""

    topic: str
    partition: int
    topic_id: str
    leader: int
    leader_epoch: int
    log_start: int
    last_stable_offset: int
    high_watermark: int
    looked_at_ms: int
    stalled_since_ms: int | None
    why: Reason | None
    is_gone: bool
    answered_at_ms: int | None
    samples: str | None
    read_at_ms: int | None

    def is_free_at(self, ms: int) -> bool:
        """Returns whether the partition answered at that time or later, with its LSO at the high watermark."""
        return self._answered_since(ms) and self.last_stable_offset >= self.high_watermark

    def is_past(self, offset: int, ms: int) -> bool:
        """Returns whether a transaction that was open from `offset` on at that time has ended.

        The LSO never passes an open transaction; but Kafka does not let it fall below the log start, whatever is open
        below.
        """
        return self._answered_since(ms) and max(offset, self.log_start) < self.last_stable_offset

    def _answered_since(self, ms: int) -> bool:
        return self.answered_at_ms is not None and self.answered_at_ms >= ms


@dataclass(slots=True)
class Partitions:
    """Some partitions as the store has them, and as they are after observations (applied first) and reads.

    `watched_ms`: the time when all of them were last observed, before these observations.
    """

    watched_ms: int
    rows: dict[TopicPartition, ObservedRow]
    entries: dict[TopicPartition, dict[int, Entry]]
    observed: set[TopicPartition] = field(default_factory=set)
    reads: dict[TopicPartition, StalledRead] = field(default_factory=dict)

    def apply_observation(self, look: PartitionObservation) -> bool:
        """Applies an observation; returns False, and changes nothing, if it is older than the stored one."""
        place = look.topic, look.partition
        old = self.rows.get(place)
        if old is not None and look.looked_at_ms < old.looked_at_ms:
            return False
        known = None if old is None or old.is_gone or old.topic_id != look.topic_id else old
        row = _row(known, look, self.watched_ms)
        self.rows[place] = row
        self.observed.add(place)
        if known is None or row.is_gone:
            self.entries.pop(place, None)
        elif place in self.entries:
            self.entries[place] = _open(row, self.entries[place].values())
        return True

    def apply_read(self, read: StalledRead) -> bool:
        """Applies a read; returns False, and changes nothing, if the read is of another partition than the stored one,
        older than the last read, or not newer than an observation that found nothing open."""
        place = read.topic, read.partition
        row = self.rows.get(place)
        if row is None or row.is_gone or row.topic_id != read.topic_id or row.is_free_at(read.read_at_ms):
            return False
        if row.read_at_ms is not None and read.read_at_ms < row.read_at_ms:
            return False
        known = self.entries.get(place, {})
        seen = {one.producer_id: _entry(place, known.get(one.producer_id), one, read) for one in read.entries}
        shows_all = read.described or read.is_whole
        self.entries[place] = _open(row, (seen if shows_all else known | seen).values())
        self.rows[place] = row._replace(read_at_ms=read.read_at_ms)
        self.reads[place] = read
        return True

    def forget(self, place: TopicPartition) -> None:
        self.rows.pop(place)
        self.entries.pop(place, None)


def _row(known: ObservedRow | None, look: PartitionObservation, watched_ms: int) -> ObservedRow:
    """Returns the row after an observation. A partition that does not answer keeps its numbers and its stall: a broker
    that is away heals nothing."""
    answers = look.why is None and not look.is_gone
    answered_at_ms = look.looked_at_ms if answers else None
    row = ObservedRow(*look[:-1], answered_at_ms=answered_at_ms, samples=look.samples, read_at_ms=None)
    if look.is_gone:
        return row._replace(stalled_since_ms=None)
    if known is None:
        return row
    if answers:
        log_start = known.log_start if row.log_start < 0 else row.log_start
        read_at_ms = None if row.is_free_at(look.looked_at_ms) else known.read_at_ms
        return row._replace(log_start=log_start, read_at_ms=read_at_ms)
    answered_at_ms = known.answered_at_ms
    if known.why is None:  # no observation of it since: it was unchanged when all were last observed
        answered_at_ms = max(known.looked_at_ms, min(watched_ms, look.looked_at_ms))
    return row._replace(
        log_start=known.log_start,
        last_stable_offset=known.last_stable_offset,
        high_watermark=known.high_watermark,
        stalled_since_ms=known.stalled_since_ms,
        samples=known.samples,
        answered_at_ms=answered_at_ms,
        read_at_ms=known.read_at_ms,
    )


def _entry(place: TopicPartition, known: Entry | None, entry: OpenEntry, read: StalledRead) -> Entry:
    is_same = known is not None and known.start_offset == entry.start_offset
    first_seen_ms = known.first_seen_ms if known is not None and is_same else read.read_at_ms
    return Entry._make((*place, *entry, first_seen_ms, read.read_at_ms))


def _open(row: ObservedRow, entries: Iterable[Entry]) -> dict[int, Entry]:
    """Returns, by producer id, the entries that no observation shows to have ended."""
    return {
        one.producer_id: one
        for one in entries
        if not row.is_free_at(one.seen_at_ms) and not row.is_past(one.start_offset, one.seen_at_ms)
    }

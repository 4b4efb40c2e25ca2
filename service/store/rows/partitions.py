"""Applies observations and reads to the rows of partitions and to their open entries. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from service.domain.partitions.facts import (
    OpenEntry,
    PartitionObservation,
    StalledRead,
    TopicPartition,
    observed_values,
)
from service.domain.partitions.open_entries import Entry
from service.domain.partitions.state import ObservedPartition


@dataclass(slots=True)
class Partitions:
    """Stored partitions and their open entries. Observations are applied first, then reads.

    `watched_ms`: the time when all partitions were last observed before these observations.
    """

    watched_ms: int
    rows: dict[TopicPartition, ObservedPartition]
    entries: dict[TopicPartition, dict[int, Entry]]
    observed: set[TopicPartition] = field(default_factory=set)
    reads: dict[TopicPartition, StalledRead] = field(default_factory=dict)

    def apply_observation(self, seen: PartitionObservation) -> None:
        """Applies an observation, unless it is older than the stored one."""
        place = seen.topic, seen.partition
        old = self.rows.get(place)
        if old is not None and seen.observed_at_ms < old.observed_at_ms:
            return
        known = None if old is None or old.is_gone or old.topic_id != seen.topic_id else old
        row = _row(known, seen, self.watched_ms)
        self.rows[place] = row
        self.observed.add(place)
        if known is None or row.is_gone:
            self.entries.pop(place, None)
        elif place in self.entries:
            self.entries[place] = _open(row, self.entries[place].values())

    def apply_read(self, read: StalledRead) -> None:
        """Applies a read. Ignores a read that is older than the last one, or that is not newer than an observation that
        found nothing open. Ignores reads of a partition that is not stored, is gone, or has another topic id."""
        place = read.topic, read.partition
        row = self.rows.get(place)
        if row is None or row.is_gone or row.topic_id != read.topic_id or row.is_free_at(read.read_at_ms):
            return
        if row.read_at_ms is not None and read.read_at_ms < row.read_at_ms:
            return
        known = self.entries.get(place, {})
        seen = {entry.producer_id: _entry(place, known.get(entry.producer_id), entry, read) for entry in read.entries}
        shows_all = read.described or read.is_whole
        self.entries[place] = _open(row, (seen if shows_all else known | seen).values())
        self.rows[place] = replace(row, read_at_ms=read.read_at_ms)
        self.reads[place] = read


_KEPT: Final = ("log_start", "last_stable_offset", "high_watermark", "stalled_since_ms", "samples")
"""The fields of an observation that a partition keeps while it does not answer."""


def _row(known: ObservedPartition | None, seen: PartitionObservation, watched_ms: int) -> ObservedPartition:
    """Returns the row after an observation. A partition that does not answer keeps its offsets and its stall, because
    an unavailable broker does not end a stall."""
    values = observed_values(seen)
    if seen.is_gone:
        return ObservedPartition(**values | {"stalled_since_ms": None})
    if seen.why is None:
        read_at_ms = None
        if known is not None:
            if seen.log_start < 0:
                values["log_start"] = known.log_start
            if seen.last_stable_offset < seen.high_watermark:
                read_at_ms = known.read_at_ms
        return ObservedPartition(**values, answered_at_ms=seen.observed_at_ms, read_at_ms=read_at_ms)
    if known is None:
        return ObservedPartition(**values)
    answered_at_ms = known.answered_at_ms
    if known.why is None:  # no newer observation: the partition was unchanged when all were last observed
        answered_at_ms = max(known.observed_at_ms, min(watched_ms, seen.observed_at_ms))
    values |= {name: getattr(known, name) for name in _KEPT}
    return ObservedPartition(**values, answered_at_ms=answered_at_ms, read_at_ms=known.read_at_ms)


def _entry(place: TopicPartition, known: Entry | None, entry: OpenEntry, read: StalledRead) -> Entry:
    is_same = known is not None and known.start_offset == entry.start_offset
    first_seen_ms = known.first_seen_ms if known is not None and is_same else read.read_at_ms
    return Entry._make((*place, *entry, first_seen_ms, read.read_at_ms))


def _open(row: ObservedPartition, entries: Iterable[Entry]) -> dict[int, Entry]:
    """Returns a mapping from producer id to its entry. Leaves out entries that are no longer open according to the
    partition's newest observation."""
    return {
        entry.producer_id: entry
        for entry in entries
        if not row.is_free_at(entry.seen_at_ms) and not row.is_past(entry.start_offset, entry.seen_at_ms)
    }

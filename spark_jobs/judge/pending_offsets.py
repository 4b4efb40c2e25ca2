"""Reads the offsets that consumer groups commit in open transactions on stalled partitions of `__consumer_offsets`.

Each transaction is read once, from its first batch to its newest. If the transaction writes more, its new batches are
read as well. The cost is bounded, by pass and by transaction. A transaction that could not be read completely is
reported.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from service.domain.findings.blocked_group import UnreadCommits
from service.domain.partitions.blocked_groups import STALLED_AFTER_MS
from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.group_offsets import OFFSETS_TOPIC, LsoSample
from service.domain.partitions.open_entries import Entry
from service.kafka.client import KafkaClient
from service.kafka.cluster import Leader, topic_layout
from service.kafka.errors import KafkaFailure
from service.kafka.offset_commits import CommitsRead, SearchRange, read_commits
from service.wire.offset_keys import OffsetKey
from spark_jobs.judge.group_rounds import UnresponsiveBrokers

log = logging.getLogger(__name__)

READ_AGAIN_MS: Final = 1_000
PASS_S: Final = 1.0
"""Time (s) after which a pass reads no more partitions."""

UNRESPONSIVE_AFTER_S: Final = 1.0
"""A broker counts as unresponsive if a request to the broker fails, and the failure took at least this time (s)."""

MOST_TRANSACTIONS: Final = 200
"""Maximum number of open transactions that are read: the oldest ones."""

MOST_BYTES: Final = 64 << 20
MOST_OFFSETS: Final = 5_000
"""Maximum number of offsets that are read of one transaction. Reading a transaction ends at this bound or at
MOST_BYTES."""

BEHIND_MS: Final = 10_000
"""Time (ms) after which a transaction that is not read completely is reported."""

Pending = Mapping[str, Mapping[TopicPartition, int]]
"""A mapping from group and partition to the producer id of the open transaction that commits the group's offset on the
partition. If there are several such transactions, the one with the lowest start offset counts."""

_Key = tuple[int, int, int]
"""The key of a transaction: partition of `__consumer_offsets`, producer id, start offset."""


@dataclass(slots=True)
class _Progress:
    """The part of a transaction that has been read, up to offset `reached`. `found_ms`: the timestamp of the
    transaction's newest batch when the transaction was last read to its end; None if it never was. `behind_since_ms`:
    the time since which every read has left some part unread; None if the last read left no part unread."""

    reached: int
    behind_since_ms: int | None
    found_ms: int | None = None
    read_bytes: int = 0
    damaged: int = 0
    offsets: set[OffsetKey] = field(default_factory=set)
    undecodable: Counter[str] = field(default_factory=Counter)

    @property
    def is_at_limit(self) -> bool:
        return self.read_bytes >= MOST_BYTES or len(self.offsets) >= MOST_OFFSETS


class PendingOffsets:
    """Reads pending offsets of groups: offsets that open transactions commit. Call `read_more` from one thread only.
    `unresponsive`: brokers to skip for a while."""

    def __init__(self, unresponsive: UnresponsiveBrokers) -> None:
        self._unresponsive = unresponsive
        self._open: dict[_Key, tuple[Entry, _Progress]] = {}
        self.left_out = 0
        """Number of transactions that are not read, because there are more than MOST_TRANSACTIONS."""
        self._read_ms: dict[int, int] = {}
        self._leaders: dict[int, int] = {}

    def read_more(
        self, client: KafkaClient, entries: Iterable[Entry], ends: Mapping[TopicPartition, LsoSample], now_ms: int
    ) -> None:
        """Reads unread batches of the transactions, within the bounds. `entries`: the open entries to read (see
        `blocking_entries`). Raises KafkaFailure if no broker reports the leaders of these partitions."""
        by_age = sorted(entries, key=lambda one: (one.first_seen_ms, one.start_offset))
        oldest, self.left_out = by_age[:MOST_TRANSACTIONS], len(by_age[MOST_TRANSACTIONS:])
        known = self._open
        self._open = {}
        for entry in oldest:
            key = entry.partition, entry.producer_id, entry.start_offset
            reading = known[key][1] if key in known else _Progress(entry.start_offset, now_ms)
            self._open[key] = entry, reading
        due = self._due(now_ms)
        if not due:
            return
        layout = topic_layout(client, OFFSETS_TOPIC)
        began = time.monotonic()
        for partition, some in due:
            leader = None if layout is None else layout.leaders.get(partition)
            if leader is None or leader.node < 0 or self._unresponsive.is_skipped(leader.node, now_ms):
                continue
            if time.monotonic() - began > PASS_S:
                break
            self._read_ms[partition] = now_ms
            self._read(client, leader, some, ends[OFFSETS_TOPIC, partition].high_watermark, now_ms)

    def by_group(self) -> Pending:
        """Returns a mapping from group to its pending offsets that have been read so far (`Pending`)."""
        found: dict[str, dict[TopicPartition, int]] = {}
        for entry, reading in sorted(self._open.values(), key=lambda pair: pair[0].start_offset):
            for offset in reading.offsets:
                found.setdefault(offset.group, {}).setdefault((offset.topic, offset.partition), entry.producer_id)
        return found

    def coordinators(self) -> dict[str, int]:
        """Returns a mapping from each group with pending offsets to its coordinator: the leader of the partition of
        `__consumer_offsets` that has the group's offsets."""
        return {
            offset.group: self._leaders[entry.partition]
            for entry, reading in self._open.values()
            for offset in reading.offsets
        }

    def unread(self, now_ms: int) -> tuple[UnreadCommits, ...]:
        """Returns the transactions that may commit offsets of more groups than were read."""
        found = []
        for key, (entry, reading) in sorted(self._open.items(), key=lambda one: one[0]):
            since_ms = reading.behind_since_ms
            is_late = since_ms is not None and now_ms - since_ms >= BEHIND_MS
            is_behind = reading.found_ms != entry.last_timestamp_ms and (reading.is_at_limit or is_late)
            if is_behind or reading.undecodable or reading.damaged:
                reached = reading.reached if is_behind else None
                undecodable = tuple(sorted(reading.undecodable.items()))
                found.append(UnreadCommits(*key, reached, undecodable, reading.damaged))
        return tuple(found)

    def _due(self, now_ms: int) -> list[tuple[int, list[tuple[Entry, _Progress]]]]:
        """Returns the transactions with unread batches, grouped by partition. The partition whose last read is the
        oldest comes first."""
        due: dict[int, list[tuple[Entry, _Progress]]] = {}
        for entry, reading in self._open.values():
            is_again = now_ms - self._read_ms.get(entry.partition, now_ms - READ_AGAIN_MS) >= READ_AGAIN_MS
            if is_again and reading.found_ms != entry.last_timestamp_ms and not reading.is_at_limit:
                due.setdefault(entry.partition, []).append((entry, reading))
        return sorted(due.items(), key=lambda one: self._read_ms.get(one[0], -1))

    def _read(
        self, client: KafkaClient, leader: Leader, some: Sequence[tuple[Entry, _Progress]], hi: int, now_ms: int
    ) -> None:
        partition = some[0][0].partition
        sought = {entry.producer_id: SearchRange(reading.reached, entry.last_timestamp_ms) for entry, reading in some}
        asked = time.monotonic()
        try:
            found = read_commits(client, partition, leader, sought, hi)
        except KafkaFailure as e:
            log.debug("%s-%d could not be read: %s", OFFSETS_TOPIC, partition, e)
            if time.monotonic() - asked >= UNRESPONSIVE_AFTER_S:  # a former leader answers at once
                self._unresponsive.note_failure(leader.node, now_ms)
            return
        self._leaders[partition] = leader.node
        for entry, reading in some:
            _apply(reading, entry, found, hi, now_ms)


def blocking_entries(entries: Iterable[Entry], ends: Mapping[TopicPartition, LsoSample], as_of_ms: int) -> list[Entry]:
    """Returns the entries that hold the LSO, or have been open for STALLED_AFTER_MS. Other entries hold nothing up, and
    are not read."""
    return [
        entry
        for entry in entries
        if entry.topic_partition in ends
        and (
            entry.start_offset <= ends[entry.topic_partition].last_stable_offset
            or as_of_ms - entry.first_seen_ms >= STALLED_AFTER_MS
        )
    ]


def _apply(reading: _Progress, entry: Entry, found: CommitsRead, hi: int, now_ms: int) -> None:
    commits = found.commits[entry.producer_id]
    reading.offsets |= commits.offsets
    reading.undecodable += commits.undecodable
    reading.damaged += found.damaged
    reading.read_bytes += found.read_bytes
    reading.reached = max(reading.reached, found.reached)
    if commits.has_newest:
        reading.found_ms = entry.last_timestamp_ms
    if commits.has_newest or reading.reached >= hi:
        reading.behind_since_ms = None
    elif reading.behind_since_ms is None:
        reading.behind_since_ms = now_ms

"""Completes the rows of groups with facts about the partition's log: the LSO, and whether there are records that the
group could read.

After a group has kept its committed offset for KEPT_MS, the log is read from this offset on, a single time for each
LSO. If the offset is above the LSO, the log is read again whenever it has grown, until a record is found. So a group
that advances costs nothing, and a group that does not advance costs little.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.group_offsets import GroupOffset, IsolationLevel, LsoSample
from service.kafka.client import KafkaClient
from service.kafka.cluster import Leader, TopicLayout, topic_layout
from service.kafka.errors import KafkaFailure, KafkaRefused
from service.kafka.log_range import has_records_ahead
from spark_jobs.judge.group_rounds import UnresponsiveBrokers
from spark_jobs.judge.pending_offsets import UNRESPONSIVE_AFTER_S

log = logging.getLogger(__name__)

KEPT_MS: Final = 2_000
"""Time (ms) for which a group must have kept its offset before the log is read from this offset on."""

AGAIN_MS: Final = 30_000
"""Time (ms) after which a failed read is tried again."""

PASS_S: Final = 0.5
"""Time (s) after which a pass reads no more partitions."""

FORGOTTEN_MS: Final = 120_000

_Key = tuple[str, int, int, int]
"""Topic, partition, committed offset, LSO."""


@dataclass(slots=True)
class _Offset:
    """A committed offset. `since_ms`, `seen_ms`: when the offset was seen first and last. `has_records`: whether there
    are records to read; None if not known. `read_to`: the high watermark up to which the log was read; None if it was
    not read yet. `again_ms`: the time before which the log is not read again."""

    since_ms: int
    seen_ms: int
    has_records: bool | None = None
    read_to: int | None = None
    again_ms: int = 0

    def is_due(self, is_above: bool, high_watermark: int, now_ms: int) -> bool:
        """Returns whether the log is to be read now. An offset below the LSO needs one read only, because the read ends
        at the LSO. For an offset above the LSO (`is_above`), the log is read again whenever it has grown, until a
        record is found."""
        if self.has_records or now_ms - self.since_ms < KEPT_MS or now_ms < self.again_ms:
            return False
        return self.read_to is None or (is_above and self.read_to < high_watermark)


class RecordsAhead:
    """Adds facts about the partition's log to the rows of groups, and remembers these facts. Call `complete` from one
    thread only. `unresponsive`: brokers to skip for a while."""

    def __init__(self, unresponsive: UnresponsiveBrokers) -> None:
        self._unresponsive = unresponsive
        self._offsets: dict[_Key, _Offset] = {}

    def complete(
        self,
        client: KafkaClient,
        rows: Iterable[GroupOffset],
        lags: Mapping[tuple[str, str, int], int],
        ends: Mapping[TopicPartition, LsoSample],
        now_ms: int,
    ) -> list[GroupOffset]:
        """Returns the rows with `lso` and `has_records_ahead`. `lags`: a mapping from (share group, topic, partition)
        to its lag. `ends`: samples of the stalled partitions, taken after the rows if there are such samples. Unstable
        rows, and rows of partitions that are not in `ends`, are returned unchanged."""
        give_up = time.monotonic() + PASS_S
        layouts: dict[str, TopicLayout | None] = {}
        found = []
        for row in rows:
            own = ends.get((row.topic, row.partition))
            if own is not None and not row.is_unstable:
                lag = lags.get(row[:3], -1)
                ahead = self._ahead(client, row, own, layouts, now_ms, give_up) if lag < 0 else _undelivered(lag, own)
                row = row._replace(lso=own.last_stable_offset, has_records_ahead=ahead)
            found.append(row)
        self._offsets = {key: offset for key, offset in self._offsets.items() if now_ms - offset.seen_ms < FORGOTTEN_MS}
        return found

    def _ahead(
        self,
        client: KafkaClient,
        row: GroupOffset,
        own: LsoSample,
        layouts: dict[str, TopicLayout | None],
        now_ms: int,
        give_up: float,
    ) -> bool | None:
        offset, lso, hi = row.committed_offset, own.last_stable_offset, own.high_watermark
        if offset < 0 or offset == lso or row.members == 0 or row.isolation == IsolationLevel.READ_UNCOMMITTED:
            return None
        key = row.topic, row.partition, offset, lso
        known = self._offsets.setdefault(key, _Offset(now_ms, now_ms))
        known.seen_ms = now_ms
        if known.is_due(offset > lso, hi, now_ms) and time.monotonic() < give_up:
            self._read(client, key, known, hi, layouts, now_ms)
        return known.has_records

    def _read(
        self,
        client: KafkaClient,
        key: _Key,
        known: _Offset,
        hi: int,
        layouts: dict[str, TopicLayout | None],
        now_ms: int,
    ) -> None:
        topic, partition, offset, lso = key
        leader: Leader | None = None
        asked = time.monotonic()
        try:
            if topic not in layouts:
                layouts[topic] = topic_layout(client, topic)
            layout = layouts[topic]
            leader = None if layout is None else layout.leaders.get(partition)
            if leader is None or leader.node < 0 or self._unresponsive.is_skipped(leader.node, now_ms):
                return
            known.has_records = has_records_ahead(client, topic, partition, leader, offset, lso, hi)
            known.read_to = hi
        except KafkaRefused:
            known.again_ms = now_ms + AGAIN_MS
        except KafkaFailure as e:
            log.debug("%s-%d could not be read: %s", topic, partition, e)
            known.again_ms = now_ms + AGAIN_MS
            if leader is not None and time.monotonic() - asked >= UNRESPONSIVE_AFTER_S:
                self._unresponsive.note_failure(leader.node, now_ms)


def needs_later_sample(
    rows: Iterable[GroupOffset],
    lags: Mapping[tuple[str, str, int], int],
    ends: Mapping[TopicPartition, LsoSample],
) -> frozenset[TopicPartition]:
    """Returns the partitions about which some row can only be judged by a sample taken after the row: the committed
    offset is beyond the LSO of `ends`, or a share group reported a lag, which counts up to a later high watermark.
    `lags`: as in `RecordsAhead.complete`."""
    return frozenset(
        (row.topic, row.partition)
        for row in rows
        if (sample := ends.get((row.topic, row.partition))) is not None
        and (row.committed_offset > sample.last_stable_offset or lags.get(row[:3], -1) >= 0)
    )


def _undelivered(lag: int, own: LsoSample) -> bool:
    """Returns whether a share group has undelivered offsets before the LSO. `lag`: the number of undelivered offsets
    before the high watermark. The sample `own` was taken after `lag` was reported, so offsets that were written in
    between may be undelivered even if the result is False."""
    return lag > own.high_watermark - own.last_stable_offset

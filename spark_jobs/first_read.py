"""Finds where reading begins: at the stored positions or, the first time, at the log's start. Shows the progress of the
first read."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from sqlalchemy import Engine

from service.domain.reasons.unread import FirstStartIncomplete
from service.domain.source_state import SourceName
from service.domain.transaction_log.states import TOPIC
from service.kafka.client import KafkaClient
from service.kafka.cluster import topic_layout
from service.kafka.errors import KafkaUnavailable
from service.kafka.settings import ClientSettings
from service.store.lease import Lease
from service.store.progress import PartitionStart, Position, positions, start_positions
from spark_jobs.source.log_identity import LogPosition, observe_log, unanswered_reason

STALE_AFTER_MS = 12 * 3_600_000
"""Half of Kafka's default delete.retention.ms. After a longer time without a read, compaction may have removed
tombstones that were never read."""


def initial_positions(engine: Engine, lease: Lease, client: ClientSettings, now_ms: int) -> dict[int, LogPosition]:
    """Returns the known positions of all partitions of the transaction log; an empty dict while the topic does not
    exist.

    While the store has no positions, raises KafkaFailure if the log's end offsets cannot be read: counters include only
    records after these ends.
    """
    with engine.connect() as connection:
        known = positions(connection, lease.cluster_id, SourceName.TRANSACTION_LOG, TOPIC)
    if not known:
        starts = _partitions(client, now_ms)
        known = start_positions(engine, lease, SourceName.TRANSACTION_LOG, TOPIC, starts, now_ms)
    return {
        p: log_position(position)._replace(stale=now_ms - position.read_at_ms > STALE_AFTER_MS)
        for p, position in known.items()
    }


def log_position(position: Position) -> LogPosition:
    """Returns the fields of a stored position that a source needs, as a LogPosition."""
    return LogPosition(
        topic_id=position.topic_id,
        generation=position.generation,
        next_offset=position.next_offset,
        leader_epoch=position.leader_epoch,
        counted_from=position.counted_from,
    )


def _partitions(client: ClientSettings, now_ms: int) -> list[PartitionStart]:
    with KafkaClient(client) as kafka:
        layout = topic_layout(kafka, TOPIC)
        if layout is None:
            return []
        seen = observe_log(kafka, layout, now_ms)
    if seen.unanswered:
        raise KafkaUnavailable(FirstStartIncomplete(unanswered_reason(seen)))
    return [
        PartitionStart(p, layout.topic_id, leader.node, leader.epoch, seen.starts[p], seen.ends[p])
        for p, leader in layout.leaders.items()
    ]


LINE_EVERY_MS = 2_000


class FirstReadProgress:
    """Shows how much of the first read is done: at most one line in LINE_EVERY_MS, and always a line at the end. The
    first read is over once all offsets below `counted_from` (the history) are read; after that, nothing is
    shown."""

    def __init__(self, positions: Iterable[LogPosition]) -> None:
        positions = list(positions)
        self._total = sum(max(p.counted_from - p.next_offset, 0) for p in positions)
        self._read = 0
        self._shown_at_ms: int | None = None

    @property
    def left(self) -> int:
        """Returns the number of offsets of history that are not stored yet."""
        return max(self._total - self._read, 0)

    def advance(self, offsets: int, now_ms: int) -> None:
        """Notes that `offsets` more offsets of the history were read and stored."""
        if not self.left or not offsets:
            return
        self._read += offsets
        done = not self.left
        if done or self._shown_at_ms is None or now_ms - self._shown_at_ms >= LINE_EVERY_MS:
            self._shown_at_ms = now_ms
            self._show(done)

    def _show(self, done: bool) -> None:
        share = min(self._read / self._total, 1.0)
        line = f"first read of the transaction log: {self._read:,} of {self._total:,} offsets ({share:.0%})"
        if sys.stderr.isatty():
            bar = "█" * round(30 * share)
            sys.stderr.write(f"\r{bar:░<30} {line}" + ("\n" if done else ""))
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

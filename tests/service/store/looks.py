"""Samples of data partitions as the sampler sends them, and the resulting rows of the store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from service.domain.partitions.facts import FirstBatch, OpenEntry, PartitionObservation, PartitionsBatch, StalledRead
from service.domain.partitions.open_entries import Entry
from service.domain.partitions.state import PartitionState
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import NoLeader
from service.store.queries import partitions
from service.store.writers.partitions import PartitionWriter
from tests.helpers.reasons import reason
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS

NO_LEADER = NoLeader()
FIRST = FirstBatch(100, 7, 0, True, False, NOW_MS - 9_000, NOW_MS - 8_000)


def look(at_ms: int, lso: int = 100, hw: int = 110, *, partition: int = 0, **more: Any) -> PartitionObservation:
    """Returns a sample of a partition of the topic `orders`. If the LSO is below the high watermark, the partition has
    been stalled since NOW_MS."""
    since_ms = NOW_MS if lso < hw else None
    return replace(PartitionObservation("orders", partition, "T", 1, 5, 10, lso, hw, at_ms, since_ms), **more)


def silent(at_ms: int, why: Reason | str = NO_LEADER, **more: Any) -> PartitionObservation:
    """Returns a sample of an unresponsive partition."""
    numbers = {"leader": -1, "leader_epoch": -1, "log_start": -1, "stalled_since_ms": None}
    return look(at_ms, -1, -1, **{"why": reason(why)} | numbers | more)


def entry(producer_id: int = 7, start: int = 100, epoch: int = 0, **more: Any) -> OpenEntry:
    return OpenEntry(producer_id, epoch, start, 3, NOW_MS - 8_000)._replace(**more)


def described(at_ms: int, *entries: OpenEntry, partition: int = 0, **more: Any) -> StalledRead:
    """Returns a read of a partition in which `entries` are all of its open entries."""
    return StalledRead("orders", partition, "T", 100, at_ms, FIRST, True, entries)._replace(**more)


class Watched:
    """A cluster with samples of its data partitions."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.writer = PartitionWriter(cluster.engine, cluster.lease)

    def see(self, *facts: PartitionObservation | StalledRead, now_ms: int = 0, **more: Any) -> bool:
        """Applies one batch, and returns whether the batch had a new read. By default, all partitions were sampled at
        the time of the batch's newest sample, or at NOW_MS if the batch has no sample."""
        looks = tuple(fact for fact in facts if isinstance(fact, PartitionObservation))
        reads = tuple(fact for fact in facts if isinstance(fact, StalledRead))
        observed_at_ms = max((look.observed_at_ms for look in looks), default=NOW_MS)
        batch = PartitionsBatch(observed_at_ms, looks, reads)._replace(**more)
        return self.writer.apply(batch, now_ms or batch.observed_at_ms)

    def row(self, partition: int = 0) -> PartitionState | None:
        with self.cluster.engine.connect() as connection:
            return partitions.find(connection, self.cluster.id, "orders", partition)

    def there(self, partition: int = 0) -> PartitionState:
        found = self.row(partition)
        assert found is not None
        return found

    def entries(self) -> list[Entry]:
        with self.cluster.engine.connect() as connection:
            return partitions.entries(connection, self.cluster.id)

    def open(self) -> dict[int, tuple[int, int]]:
        """Returns a mapping from each producer id with an open entry to the entry's (first seen, start offset)."""
        return {entry.producer_id: (entry.first_seen_ms, entry.start_offset) for entry in self.entries()}

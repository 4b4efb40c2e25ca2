"""Makes stores with data partitions as the sampler and the judge write them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from service.domain.findings.finding import Observation, Subject
from service.domain.findings.kinds import Kind, Severity
from service.domain.partitions.facts import FirstBatch, OpenEntry, PartitionObservation, PartitionsBatch, StalledRead
from service.domain.reasons.reason import Reason
from service.domain.transaction_log.facts import Participants
from service.domain.transaction_log.states import ONGOING
from service.store.writers.partitions import PartitionWriter
from tests.helpers.findings import WithFindings, observe
from tests.helpers.reasons import reason
from tests.helpers.stores import NOW_MS, Id

SINCE_MS = NOW_MS - 20_000
LSO, END = 100, 110
PID = 7


class WithPartitions(WithFindings):
    """A cluster in a store, with data partitions stored as the sampler stores them."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.partitions = PartitionWriter(self.engine, self.lease)

    def look(self, *facts: PartitionObservation | StalledRead, at_ms: int = NOW_MS, **more: Any) -> None:
        """Stores one batch of the sampler with `facts`. The sampler sampled all partitions at `at_ms`. `more` has other
        fields of the batch."""
        looks = tuple(fact for fact in facts if isinstance(fact, PartitionObservation))
        reads = tuple(fact for fact in facts if isinstance(fact, StalledRead))
        trouble = reason(more.pop("trouble", None))
        self.partitions.apply(PartitionsBatch(at_ms, looks, reads, trouble=trouble)._replace(**more), at_ms)


def moving_partition(
    partition: int = 0, topic: str = "orders", at_ms: int = NOW_MS, **more: Any
) -> PartitionObservation:
    """Returns a sample of a partition without an open transaction."""
    return replace(PartitionObservation(topic, partition, "T", 1, 5, 10, END, END, at_ms, None), **more)


def stalled_partition(
    partition: int = 0, topic: str = "orders", at_ms: int = NOW_MS, **more: Any
) -> PartitionObservation:
    """Returns a sample of a partition that has been stalled since SINCE_MS, 10 offsets below the high watermark."""
    return moving_partition(partition, topic, at_ms, **{"last_stable_offset": LSO, "stalled_since_ms": SINCE_MS} | more)


def unanswered_partition(
    why: Reason | str, partition: int = 0, topic: str = "orders", at_ms: int = NOW_MS
) -> PartitionObservation:
    return PartitionObservation(topic, partition, "T", -1, -1, -1, -1, -1, at_ms, None, reason(why))


def entry(producer_id: int = PID, start: int = LSO, epoch: int = 3, **more: Any) -> OpenEntry:
    return OpenEntry(producer_id, epoch, start, 0, NOW_MS - 15_000)._replace(**more)


def first(producer_id: int = PID, **more: Any) -> FirstBatch:
    """Returns the header of the batch at the LSO."""
    return FirstBatch(LSO, producer_id, 3, True, False, NOW_MS - 19_000, NOW_MS - 18_000)._replace(**more)


def read(*entries: OpenEntry, partition: int = 0, at_ms: int = SINCE_MS + 1_000, **more: Any) -> StalledRead:
    """Returns a read of a stalled partition: the batch at the LSO, and `entries` from DescribeProducers."""
    at_lso = first(entries[0].producer_id if entries else PID)
    return StalledRead("orders", partition, "T", LSO, at_ms, at_lso, True, entries)._replace(
        **more | {"why": reason(more.get("why"))}
    )


def owner(name: bytes, partition: int = 0, producer_id: int = PID, state: int = ONGOING, **more: Any) -> Id:
    """Returns an id whose open transaction began when the partition stalled, and includes the partition."""
    own = Id(name, state, start_ms=SINCE_MS, last_update_ms=SINCE_MS, producer_id=producer_id, timeout_ms=900_000)
    return own._replace(topics=(Participants("orders", (partition,)),))._replace(**more)


def hanging_finding(
    partition: int = 0, producer_id: int = PID, name: bytes | None = b"pay", **more: Any
) -> Observation:
    """Returns the observation of a confirmed hanging transaction at the LSO."""
    subject = Subject("orders", partition, name, producer_id, 3, LSO)
    return observe(Kind.HANGING, subject=subject, severity=Severity.CRITICAL, log_partition=None)._replace(**more)

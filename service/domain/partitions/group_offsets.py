"""Values about a group and a partition that it reads: the answer of the group's coordinator, and the newest sample of
the partition."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from service.domain.partitions.facts import TopicPartition
from service.domain.transaction_log.coordinator_partition import partition_of

OFFSETS_TOPIC: Final = "__consumer_offsets"


def offsets_partition(group: str, partitions: int) -> int:
    """Returns the partition of `__consumer_offsets` for the group, as the group coordinator chooses it
    (`GroupCoordinatorService.partitionFor`). `partitions`: the number of partitions of that topic."""
    return partition_of(group, partitions)


class IsolationLevel(StrEnum):
    """The isolation.level of a consumer, and the share.isolation.level of a share group."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class GroupOffset(NamedTuple):
    """The answer of a group's coordinator about one partition. The writer of the store sets the times and counts,
    because they depend on earlier answers.

    - `committed_offset`: for a share group, its start offset; -1 if there is none, or if it is not reported. `members`:
      None if not reported.
    - `is_unstable`: an open transaction contains an offset for the partition (UNSTABLE_OFFSET_COMMIT);
      `committed_offset` was committed before this transaction. `producer_id`: the producer id of this transaction; None
      if its batches were not read.
    - `isolation`: the level of a share group; None for other groups.
    - `observed_at_ms`: when the answer had arrived. `unchanged_since_ms`: the time since which `committed_offset` is
      known to be the same.
    - `lso`: the LSO for which `advances` and the fields about records ahead are valid. It is the LSO at the time of the
      answer or, if that is not known, the LSO of the last answer with a known LSO; None if there is none. `advances`:
      the number of times that the group, with members before and after, has moved on from an offset above this LSO.
    - `has_records_ahead`: there is a record that the group could read. From an offset below the LSO, only committed
      records before the LSO count; from an offset above the LSO, all records before the high watermark count. None if
      these records were not read. `records_ahead_since_ms`: the time since which `has_records_ahead` is known to be
      True at this offset.
    """

    group: str
    topic: str
    partition: int
    committed_offset: int
    members: int | None
    is_unstable: bool
    producer_id: int | None = None
    isolation: IsolationLevel | None = None
    lso: int | None = None
    has_records_ahead: bool | None = None
    observed_at_ms: int = 0
    unchanged_since_ms: int = 0
    advances: int = 0
    records_ahead_since_ms: int | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        return self.topic, self.partition

    @property
    def unchanged_ms(self) -> int:
        return self.observed_at_ms - self.unchanged_since_ms


class LsoSample(NamedTuple):
    """The newest sample of a partition. `stalled_since_ms`: as in PartitionObservation; None if the partition is not
    stalled."""

    last_stable_offset: int
    high_watermark: int
    stalled_since_ms: int | None

    @property
    def lag(self) -> int:
        return self.high_watermark - self.last_stable_offset

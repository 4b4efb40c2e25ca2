"""Relates consumer groups to the open transactions that block them, from a committed offset and the LSO.

A committed offset does not show with which isolation level its group reads. A group whose offset is at the LSO, or has
not moved for STOPPED_AFTER_MS below it, is assumed to read committed records and to wait. The log between the two is
not read, so a group that has only markers and aborted records left to pass may wait already: a group that commits "last
record + 1" is one marker short of the LSO, and is reported as `will_stop` until its offset has not moved for that long.
Both relations count as blocked.

A group on a data partition waits for whichever transaction holds the LSO. A group with pending offsets waits for the
transaction that contains them, wherever the LSO is; if the batches of that transaction could not be read, for any that
is open there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from service.domain.findings.kinds import CERTAIN, LIKELY
from service.domain.java_hash import partition_of
from service.domain.partitions.facts import TopicPartition

INACTIVE: Final = "inactive"
UNSTABLE_OFFSETS: Final = "unstable_offsets"
STOPPED: Final = "stopped"
WILL_STOP: Final = "will_stop"
READS_UNCOMMITTED: Final = "reads_uncommitted"
RELATIONS: Final = (INACTIVE, UNSTABLE_OFFSETS, STOPPED, WILL_STOP, READS_UNCOMMITTED)
BLOCKED: Final = frozenset({STOPPED, WILL_STOP, UNSTABLE_OFFSETS})

STALLED_AFTER_MS: Final = 1_000
"""Time for which a partition has to be stalled before groups count as waiting for it: shorter transactions come and go
all the time."""

STOPPED_AFTER_MS: Final = 30_000
"""A group that makes progress commits at least once in this time: the default auto.commit.interval.ms is 5 s."""


class GroupOffset(NamedTuple):
    """The answer of a group's coordinator about one partition. `committed_offset` -1: none, or not reported. `members`:
    None if not reported.

    `is_unstable`: an offset for the partition is part of an open transaction (UNSTABLE_OFFSET_COMMIT), and
    `committed_offset` is the one before. `observed_at_ms`: time at which the answer had arrived. `standing_since_ms`:
    time since which `committed_offset` is known to be the same. `producer_id`: of the open transaction, if its batches
    were read.
    """

    group: str
    topic: str
    partition: int
    committed_offset: int
    members: int | None
    is_unstable: bool
    observed_at_ms: int
    standing_since_ms: int
    producer_id: int | None = None

    @property
    def unchanged_ms(self) -> int:
        return self.observed_at_ms - self.standing_since_ms


class LsoSample(NamedTuple):
    """The newest sample of a partition. `stalled_since_ms` None: the LSO is at the high watermark."""

    last_stable_offset: int
    high_watermark: int
    stalled_since_ms: int | None


class AffectedGroup(NamedTuple):
    """A group and a partition that an open transaction affects. `stalled_partition`: the partition where the
    transaction is open, stalled since `stalled_since_ms` with its LSO at `stalled_lso`. For `unstable_offsets` that is
    a partition of `__consumer_offsets`, else the group's own. `ends`: of the group's partition; None if that is not
    watched."""

    offset: GroupOffset
    ends: LsoSample | None
    relation: str
    confidence: str
    stalled_partition: TopicPartition
    stalled_lso: int
    stalled_since_ms: int

    @property
    def key(self) -> tuple[str, str, int]:
        return self.offset.group, self.offset.topic, self.offset.partition

    @property
    def is_blocked(self) -> bool:
        return self.relation in BLOCKED

    @property
    def is_pending(self) -> bool:
        """Returns whether the offset is part of an open transaction on `stalled_partition`. A member that starts waits
        for that transaction."""
        return self.offset.is_unstable and self.stalled_partition != (self.offset.topic, self.offset.partition)

    @property
    def offsets_partition(self) -> int | None:
        return self.stalled_partition[1] if self.is_pending else None

    @property
    def waits_for_producer_id(self) -> int | None:
        """Returns the producer id of the open transaction that the group waits for. None if the group waits for the
        transaction that holds the LSO of `stalled_partition`, or for any that is open there."""
        return self.offset.producer_id if self.is_pending else None


def stalled_since_ms(ends: LsoSample | None, as_of_ms: int) -> int | None:
    """Returns the time since which the LSO has been below the high watermark, if that is STALLED_AFTER_MS or longer
    ago; else None. If both are equal, no group waits for the LSO."""
    if ends is None or ends.stalled_since_ms is None or ends.last_stable_offset >= ends.high_watermark:
        return None
    return ends.stalled_since_ms if as_of_ms - ends.stalled_since_ms >= STALLED_AFTER_MS else None


def affected_groups(
    offsets: Iterable[GroupOffset],
    ends: Mapping[TopicPartition, LsoSample],
    offsets_partitions: int | None,
    as_of_ms: int,
) -> list[AffectedGroup]:
    """Returns the relation of every group on a stalled partition, blocked or not; by group, topic and partition.

    `ends`: of the stalled partitions at least. `offsets_partitions`: the number of partitions of `__consumer_offsets`,
    None if not known. `as_of_ms`: the time of the sample.

    Answers from before the partition stalled are left out, because they do not show whether a group waits now. So are
    offsets beyond the LSO that were reported after the sample: the LSO may have reached them by now.
    """
    found = (_affected_group(one, ends, offsets_partitions, as_of_ms) for one in offsets)
    return sorted((one for one in found if one is not None), key=lambda one: one.key)


def _affected_group(
    one: GroupOffset, all_ends: Mapping[TopicPartition, LsoSample], offsets_partitions: int | None, as_of_ms: int
) -> AffectedGroup | None:
    place = one.topic, one.partition
    own = all_ends.get(place)
    if one.is_unstable and offsets_partitions is not None:
        stalled_partition = OFFSETS_TOPIC, offsets_partition(one.group, offsets_partitions)
        relation = INACTIVE if one.members == 0 else UNSTABLE_OFFSETS
        affected = _behind(
            one, own, stalled_partition, all_ends.get(stalled_partition), relation, _confidence(one), as_of_ms
        )
        if affected is not None:
            return affected
    if own is None or one.committed_offset < 0:
        return None
    if one.committed_offset > own.last_stable_offset and one.observed_at_ms > as_of_ms:
        return None
    return _behind(one, own, place, own, *_relation(one, own.last_stable_offset), as_of_ms)


def _behind(
    one: GroupOffset,
    own: LsoSample | None,
    stalled_partition: TopicPartition,
    ends: LsoSample | None,
    relation: str,
    confidence: str,
    as_of_ms: int,
) -> AffectedGroup | None:
    since_ms = stalled_since_ms(ends, as_of_ms)
    if ends is None or since_ms is None or one.observed_at_ms < since_ms:
        return None
    return AffectedGroup(one, own, relation, confidence, stalled_partition, ends.last_stable_offset, since_ms)


def _relation(one: GroupOffset, last_stable_offset: int) -> tuple[str, str]:
    if one.members == 0:
        return INACTIVE, CERTAIN
    if one.committed_offset > last_stable_offset:
        return READS_UNCOMMITTED, CERTAIN
    if one.committed_offset == last_stable_offset:
        return STOPPED, _confidence(one)
    return (STOPPED if one.unchanged_ms >= STOPPED_AFTER_MS else WILL_STOP), LIKELY


def _confidence(one: GroupOffset) -> str:
    """Returns the confidence. A group that is reading may not have committed yet, so a short time proves little."""
    return CERTAIN if one.members is not None and one.unchanged_ms >= STOPPED_AFTER_MS else LIKELY


class BlockedGroupIndex:
    """An index of affected groups by the partition and producer id that they wait for. All were observed at the same
    time."""

    def __init__(self, groups: Iterable[AffectedGroup] = ()) -> None:
        self._blocked: dict[TopicPartition, dict[int | None, set[str]]] = {}
        self._pending: dict[tuple[TopicPartition, int], list[AffectedGroup]] = {}
        for one in groups:
            if one.is_blocked:
                by_producer = self._blocked.setdefault(one.stalled_partition, {})
                by_producer.setdefault(one.waits_for_producer_id, set()).add(one.offset.group)
            if one.waits_for_producer_id is not None:
                self._pending.setdefault((one.stalled_partition, one.waits_for_producer_id), []).append(one)

    def behind(self, place: TopicPartition) -> tuple[str, ...]:
        """Returns all blocked groups behind the partition, by name."""
        return tuple(sorted(set().union(*self._blocked.get(place, {}).values())))

    def waiting_for(self, places: Iterable[TopicPartition], producer_id: int) -> tuple[str, ...]:
        """Returns the blocked groups, by name, that may wait for an open transaction of the producer id on these
        partitions."""
        found: set[str] = set()
        for place in places:
            by_producer = self._blocked.get(place, {})
            found |= by_producer.get(None, set()) | by_producer.get(producer_id, set())
        return tuple(sorted(found))

    def pending(self, place: TopicPartition, producer_id: int) -> tuple[AffectedGroup, ...]:
        """Returns the groups and partitions, blocked or without members, whose offsets are known to be part of what the
        producer id has open on this partition of `__consumer_offsets`."""
        return tuple(sorted(self._pending.get((place, producer_id), ()), key=lambda one: one.key))


NO_GROUPS: Final = BlockedGroupIndex()


OFFSETS_TOPIC: Final = "__consumer_offsets"


def offsets_partition(group: str, partitions: int) -> int:
    """Returns the partition of `__consumer_offsets` for the group, as the group coordinator chooses it
    (`GroupCoordinatorService.partitionFor`). `partitions`: their number."""
    return partition_of(group, partitions)

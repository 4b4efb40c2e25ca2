"""Relates consumer groups to open transactions, by the progress of the groups.

Except for share groups (KIP-932), Kafka does not report the isolation level of a group. A committed offset does not
show the level either, because a read_committed group can be reset to an offset above the LSO. So the group's relation
to the open transaction (blocked, about to be blocked, not affected, …) is derived from its progress while the LSO is
stalled, and from the records that it could read:

| committed offset | the group | relation |
|---|---|---|
| any | has no members | inactive |
| above the LSO | has moved from one offset above the LSO to a higher one, at an unchanged LSO | reads_uncommitted |
| above the LSO | does not move for STOPPED_AFTER_MS although there are records for it | stopped, likely |
| the LSO | | stopped; certain only for a read_committed share group that does not move for STOPPED_AFTER_MS |
| below the LSO | has no record left to read before the LSO (known from the bytes) | stopped, likely |
| below the LSO | has moved in the last STOPPED_AFTER_MS | will_stop, likely |
| below the LSO | does not move, and has records left, or the records could not be read | unknown |
| none | has had members on the partition for STOPPED_AFTER_MS | stopped, likely |
| pending in an open transaction | | unstable_offsets |

Every other relation is unknown. It is never certain that a consumer group at the LSO waits for the transaction: the
group may read uncommitted records; then it may be about to read on, or may be stuck at the record there. A group that
has records left before the LSO does not wait for the transaction at the LSO. If such a group does not move, its
application may be slow, broken or paused; these cases look the same. A share group is judged by the level that Kafka
reports: with read_uncommitted it waits for no transaction; with read_committed it is stopped at the LSO and above.

A group on a data partition waits for the transaction that holds the LSO. A group with pending offsets waits for the
transaction that contains these offsets, wherever the LSO is. If the batches of that transaction could not be read, the
group counts as waiting for any transaction that is open on its partition of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.group_offsets import (
    OFFSETS_TOPIC,
    GroupOffset,
    IsolationLevel,
    LsoSample,
    offsets_partition,
)
from service.domain.transaction_log.causes import Confidence


class GroupRelation(StrEnum):
    """The relation of a group to an open transaction, in the words of the API."""

    INACTIVE = "inactive"
    UNSTABLE_OFFSETS = "unstable_offsets"
    STOPPED = "stopped"
    WILL_STOP = "will_stop"
    READS_UNCOMMITTED = "reads_uncommitted"
    UNKNOWN = "unknown"


BLOCKED: Final = frozenset({GroupRelation.STOPPED, GroupRelation.WILL_STOP, GroupRelation.UNSTABLE_OFFSETS})


STALLED_AFTER_MS: Final = 1_000
"""Time for which a partition has to be stalled before groups count as waiting there, because shorter stalls are
normal."""

STOPPED_AFTER_MS: Final = 30_000
"""A group that makes progress commits at least once in this time: the default auto.commit.interval.ms is 5 s."""


class AffectedGroup(NamedTuple):
    """A group, a partition that it reads, and its relation to the open transaction. `stalled_partition`: the partition
    where the transaction is open: a partition of `__consumer_offsets` if the group's offset is pending (`is_pending`),
    else the partition that the group reads. `stalled_partition` has been stalled since `stalled_since_ms`, with its LSO
    at `stalled_lso`. `ends`: the sample of the partition that the group reads; None if there is no sample."""

    offset: GroupOffset
    ends: LsoSample | None
    relation: GroupRelation
    confidence: Confidence
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
    def committed(self) -> int | None:
        """Returns the committed offset; None if the group has committed no offset, or if Kafka does not report it."""
        return None if self.offset.committed_offset < 0 else self.offset.committed_offset

    @property
    def lag_to_lso(self) -> int | None:
        """Returns the lag as read_committed clients measure it: the number of offsets to the LSO, negative for an
        offset above the LSO. Returns None if no offset is committed, or `ends` is None."""
        return None if self.committed is None or self.ends is None else self.ends.last_stable_offset - self.committed

    @property
    def lag_to_hw(self) -> int | None:
        return None if self.committed is None or self.ends is None else self.ends.high_watermark - self.committed

    @property
    def to_go(self) -> int | None:
        """Returns the number of offsets until the group stops; None for every relation but `will_stop`."""
        if self.relation != GroupRelation.WILL_STOP:
            return None
        return max(self.stalled_lso - self.offset.committed_offset, 0)

    @property
    def waits_ms(self) -> int:
        """Returns the time (ms) for which the offset has not moved since the partition stalled. Before the stall, the
        group may have had nothing to read."""
        return waits_ms(self.offset, self.stalled_since_ms)

    @property
    def is_pending(self) -> bool:
        """Returns whether the offset is part of an open transaction on `stalled_partition`. If so, each member that
        starts waits for that transaction."""
        return self.offset.is_unstable and self.stalled_partition != self.offset.topic_partition

    @property
    def offsets_partition(self) -> int | None:
        return self.stalled_partition[1] if self.is_pending else None

    @property
    def waits_for_producer_id(self) -> int | None:
        """Returns the producer id of the open transaction that the group waits for. None if the group waits for the
        transaction that holds the LSO of `stalled_partition`, or if it may wait for any transaction that is open
        there."""
        return self.offset.producer_id if self.is_pending else None


def waits_ms(group_offset: GroupOffset, since_ms: int | None) -> int:
    """Returns the time (ms) for which the offset has not moved since `since_ms`; 0 if `since_ms` is None."""
    return 0 if since_ms is None else group_offset.observed_at_ms - max(group_offset.unchanged_since_ms, since_ms)


def stalled_since_ms(ends: LsoSample | None, as_of_ms: int) -> int | None:
    """Returns the time since which the LSO has been at its present offset, below the high watermark. Returns None if
    that time is less than STALLED_AFTER_MS ago, or if the LSO is at the high watermark: then no group waits."""
    if ends is None or ends.stalled_since_ms is None or ends.last_stable_offset >= ends.high_watermark:
        return None
    return ends.stalled_since_ms if as_of_ms - ends.stalled_since_ms >= STALLED_AFTER_MS else None


def affected_groups(
    offsets: Iterable[GroupOffset],
    ends: Mapping[TopicPartition, LsoSample],
    offsets_partitions: int | None,
    as_of_ms: int,
) -> list[AffectedGroup]:
    """Returns all groups on stalled partitions, blocked or not, each with its relation to the open transaction, sorted
    by group, topic and partition.

    `ends`: samples of all stalled partitions; samples of other partitions do no harm. `offsets_partitions`: the number
    of partitions of `__consumer_offsets`, None if not known. `as_of_ms`: the time of the samples.

    Answers from before the partition stalled are left out, because they do not show whether a group waits now. Offsets
    beyond the LSO that were reported after `as_of_ms` are left out too, because the LSO may have reached them since.
    """
    found = (_affected_group(offset, ends, offsets_partitions, as_of_ms) for offset in offsets)
    return sorted((group for group in found if group is not None), key=lambda group: group.key)


def _affected_group(
    group_offset: GroupOffset,
    all_ends: Mapping[TopicPartition, LsoSample],
    offsets_partitions: int | None,
    as_of_ms: int,
) -> AffectedGroup | None:
    place = group_offset.topic_partition
    own = all_ends.get(place)
    if group_offset.is_unstable and offsets_partitions is not None:
        stalled_partition = OFFSETS_TOPIC, offsets_partition(group_offset.group, offsets_partitions)
        relation = GroupRelation.INACTIVE if group_offset.members == 0 else GroupRelation.UNSTABLE_OFFSETS
        affected = _behind(
            group_offset,
            own,
            stalled_partition,
            all_ends.get(stalled_partition),
            relation,
            _confidence(group_offset),
            as_of_ms,
        )
        if affected is not None:
            return affected
    if own is None or (group_offset.committed_offset < 0 and group_offset.is_unstable):
        return None
    if group_offset.committed_offset > own.last_stable_offset and group_offset.observed_at_ms > as_of_ms:
        return None
    return _behind(group_offset, own, place, own, *_relation(group_offset, own), as_of_ms)


def _behind(
    group_offset: GroupOffset,
    own: LsoSample | None,
    stalled_partition: TopicPartition,
    ends: LsoSample | None,
    relation: GroupRelation,
    confidence: Confidence,
    as_of_ms: int,
) -> AffectedGroup | None:
    since_ms = stalled_since_ms(ends, as_of_ms)
    if ends is None or since_ms is None or group_offset.observed_at_ms < since_ms:
        return None
    return AffectedGroup(group_offset, own, relation, confidence, stalled_partition, ends.last_stable_offset, since_ms)


def _relation(group_offset: GroupOffset, own: LsoSample) -> tuple[GroupRelation, Confidence]:
    """Returns the group's relation to the open transaction and its confidence, by the table in the module's
    docstring."""
    lso = own.last_stable_offset
    if group_offset.members == 0:
        return GroupRelation.INACTIVE, Confidence.CERTAIN
    if group_offset.isolation == IsolationLevel.READ_UNCOMMITTED:
        return GroupRelation.READS_UNCOMMITTED, Confidence.CERTAIN
    if group_offset.committed_offset < 0:
        return _without_offset(group_offset, own)
    if group_offset.committed_offset == lso or (
        group_offset.committed_offset > lso and group_offset.isolation == IsolationLevel.READ_COMMITTED
    ):
        is_sure = (
            group_offset.isolation == IsolationLevel.READ_COMMITTED
            and waits_ms(group_offset, own.stalled_since_ms) >= STOPPED_AFTER_MS
        )
        return (
            GroupRelation.STOPPED,
            Confidence.CERTAIN if is_sure and group_offset.members is not None else Confidence.LIKELY,
        )
    if group_offset.committed_offset > lso:
        return _above(group_offset, lso)
    if group_offset.has_records_ahead is False and group_offset.lso == lso:
        return GroupRelation.STOPPED, Confidence.LIKELY
    return (
        GroupRelation.WILL_STOP if group_offset.unchanged_ms < STOPPED_AFTER_MS else GroupRelation.UNKNOWN
    ), Confidence.LIKELY


def _without_offset(group_offset: GroupOffset, own: LsoSample) -> tuple[GroupRelation, Confidence]:
    """Returns relation and confidence for a group that has committed no offset of the partition. A group with members
    that reads records commits an offset soon, unless it stores offsets outside of Kafka. If the members are not known,
    the relation is UNKNOWN."""
    is_waiting = bool(group_offset.members) and waits_ms(group_offset, own.stalled_since_ms) >= STOPPED_AFTER_MS
    return (GroupRelation.STOPPED if is_waiting else GroupRelation.UNKNOWN), Confidence.LIKELY


def _above(group_offset: GroupOffset, lso: int) -> tuple[GroupRelation, Confidence]:
    """Returns relation and confidence for a group with a committed offset above the LSO. One advance alone does not
    prove that the group reads uncommitted records, because it can be a reset between two answers."""
    if group_offset.lso == lso and group_offset.advances:
        return GroupRelation.READS_UNCOMMITTED, Confidence.CERTAIN if group_offset.advances > 1 else Confidence.LIKELY
    since_ms = group_offset.records_ahead_since_ms
    is_waiting = (
        bool(group_offset.members)
        and since_ms is not None
        and group_offset.observed_at_ms - since_ms >= STOPPED_AFTER_MS
    )
    return (
        GroupRelation.STOPPED if is_waiting and group_offset.unchanged_ms >= STOPPED_AFTER_MS else GroupRelation.UNKNOWN
    ), Confidence.LIKELY


def _confidence(group_offset: GroupOffset) -> Confidence:
    """Returns the confidence that pending offsets block the group: CERTAIN if its members are known and its offset has
    not moved for STOPPED_AFTER_MS, else LIKELY. In a shorter time, even a group that makes progress does not always
    commit."""
    return (
        Confidence.CERTAIN
        if group_offset.members is not None and group_offset.unchanged_ms >= STOPPED_AFTER_MS
        else Confidence.LIKELY
    )


class BlockedGroupIndex:
    """An index of affected groups by the partition and producer id that they wait for."""

    def __init__(self, groups: Iterable[AffectedGroup] = ()) -> None:
        self._blocked: dict[TopicPartition, dict[int | None, set[str]]] = {}
        self._pending: dict[tuple[TopicPartition, int], list[AffectedGroup]] = {}
        for group in groups:
            if group.is_blocked:
                by_producer = self._blocked.setdefault(group.stalled_partition, {})
                by_producer.setdefault(group.waits_for_producer_id, set()).add(group.offset.group)
            if group.waits_for_producer_id is not None:
                self._pending.setdefault((group.stalled_partition, group.waits_for_producer_id), []).append(group)

    def behind(self, place: TopicPartition) -> tuple[str, ...]:
        """Returns all blocked groups whose `stalled_partition` is the partition, sorted by name."""
        return tuple(sorted(set().union(*self._blocked.get(place, {}).values())))

    def waiting_for(self, places: Iterable[TopicPartition], producer_id: int) -> tuple[str, ...]:
        """Returns the blocked groups, sorted by name, that may wait for an open transaction of the producer id on these
        partitions."""
        found: set[str] = set()
        for place in places:
            by_producer = self._blocked.get(place, {})
            found |= by_producer.get(None, set()) | by_producer.get(producer_id, set())
        return tuple(sorted(found))

    def pending(self, place: TopicPartition, producer_id: int) -> tuple[AffectedGroup, ...]:
        """Returns the affected groups, blocked or inactive, whose pending offsets are known to be part of the producer
        id's open transaction on this partition of `__consumer_offsets`."""
        return tuple(sorted(self._pending.get((place, producer_id), ()), key=lambda group: group.key))


NO_GROUPS: Final = BlockedGroupIndex()

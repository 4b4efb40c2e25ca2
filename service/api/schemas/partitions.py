"""The bodies of data partitions: open transactions, the consumer groups that these affect, markers and volume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from service.api.http.fields import id_fields, partition_link, text_of_time, transaction_link
from service.api.schemas.offsets import MarkerWord
from service.api.schemas.shape import IdBytes, OneOf, Page, RawTime, Shape, Time, Wide, moment, past_moment, shaped
from service.domain.findings.hanging import is_blocking
from service.domain.partitions import ledger
from service.domain.partitions.blocked_groups import AffectedGroup, GroupRelation
from service.domain.partitions.group_offsets import IsolationLevel
from service.domain.partitions.open_entries import RelationKind
from service.domain.partitions.state import PartitionState
from service.domain.reasons.reason import text_of
from service.domain.transaction_log.causes import Confidence
from service.views.partitions.judged import JudgedEntry, JudgedPartition

RelationWord = Annotated[RelationKind, OneOf(*RelationKind)]
GroupRelationWord = Annotated[GroupRelation, OneOf(*GroupRelation)]
IsolationWord = Annotated[IsolationLevel, OneOf(*IsolationLevel)]

Ids = Mapping[bytes, bytes]
"""A mapping from an id's key in the store to the full transactional id."""

Applications = Mapping[bytes, str]
"""A mapping from an id's key in the store to the name of the id's application."""


class OpenTransaction(Shape):
    """A transaction that is open on the partition. `relation`: what will end the transaction."""

    producer_id: Wide
    producer_epoch: int
    transactional_id: Annotated[str | None, Field(description="The owner of the producer id; null if unknown.")]
    transactional_id_b64: IdBytes
    application: Annotated[
        str | None, Field(description="The application that `transactional_id` belongs to; null if not known.")
    ]
    start_offset: Wide
    started_at: Annotated[
        RawTime,
        Field(
            description="The start time that the coordinator recorded; if unknown, the time at which the transaction"
            " was first seen."
        ),
    ]
    first_record_timestamp: Annotated[
        RawTime, Field(description="Timestamp of the transaction's first batch, by the producer's clock.")
    ]
    last_write_at: Annotated[
        RawTime, Field(description="Timestamp of the transaction's newest batch, by the producer's clock.")
    ]
    records: Annotated[
        int | None,
        Field(
            description="Number of the transaction's records between LSO and high watermark; null unless all batches"
            " there were read."
        ),
    ]
    bytes: int | None
    blocking_now: Annotated[bool, Field(description="True if the transaction begins at the LSO.")]
    relation: RelationWord
    why: Annotated[str | None, Field(description="The reason why `relation` is unknown.")]
    href: Annotated[str | None, Field(description="Path of its transactional id.")]

    @staticmethod
    def of(
        judged_entry: JudgedEntry, row: PartitionState, cluster: str, ids: Ids, applications: Applications
    ) -> OpenTransaction:
        """Returns the body of an entry on the partition of `row`. `cluster`: the cluster's name."""
        entry, relation = judged_entry.entry, judged_entry.relation
        owner = relation.owner
        raw_id = None if owner is None else ids[owner.transactional_id]
        transactional_id, id_b64 = id_fields(raw_id)
        first = row.first_of(entry.producer_id, entry.start_offset)
        return shaped(
            OpenTransaction,
            entry,
            transactional_id=transactional_id,
            transactional_id_b64=id_b64,
            application=None if owner is None else applications.get(owner.transactional_id),
            started_at=moment(judged_entry.started_ms),
            first_record_timestamp=past_moment(None if first is None else first.first_timestamp_ms, entry.seen_at_ms),
            last_write_at=past_moment(entry.last_timestamp_ms, entry.seen_at_ms),
            blocking_now=is_blocking(entry, row.log_start, row.last_stable_offset),
            relation=relation.kind,
            why=text_of(relation.why),
            href=None if raw_id is None else transaction_link(cluster, raw_id),
        )


class Partition(Shape):
    """A partition as its leader reported it at `observed_at`. Leader and leader epoch are the newest in the metadata.
    Fields that the leader never reported are null."""

    topic: str
    partition: int
    leader: int | None
    leader_epoch: int | None
    log_start_offset: Wide | None
    last_stable_offset: Wide | None
    high_watermark: Wide | None
    lso_lag_records: Annotated[
        Wide | None, Field(description="Offsets from the LSO to the high watermark, markers included.")
    ]
    lso_lag_bytes: Annotated[
        int | None, Field(description="Bytes from the LSO to the high watermark; null unless all of them were read.")
    ]
    lso_stalled_since: Annotated[
        Time | None,
        Field(description="Time since which the LSO is stalled below the high watermark; null if it is not stalled."),
    ]
    blocker: Annotated[
        OpenTransaction | None, Field(description="The transaction that holds the LSO; null if not certain.")
    ]
    open_transactions: Annotated[
        list[OpenTransaction],
        Field(description="The open transactions, ordered by offset. They are known only while the LSO is stalled."),
    ]
    blocked_groups: Annotated[
        list[str],
        Field(
            description="Consumer groups that wait at the LSO, or will reach it; for a partition of"
            " `__consumer_offsets`, those with offsets in a transaction that is open there."
        ),
    ]
    judged: Annotated[
        bool,
        Field(
            description="True if the partition's leader answers, and each open transaction has a known relation. A"
            " missing fact that may still arrive counts only after 3 s, and only after 45 s while a client may be"
            " waiting for a broker."
        ),
    ]
    why: Annotated[str | None, Field(description="The reason why `judged` is false.")]
    observed_at: Time | None
    href: Annotated[str, Field(description="Path of this partition.")]

    @staticmethod
    def of(
        judged: JudgedPartition,
        blocked_groups: Sequence[str],
        cluster: str,
        ids: Ids,
        applications: Applications,
    ) -> Partition:
        """Returns the body of the judged partition. `blocked_groups`: the names of the consumer groups that are blocked
        on the partition."""
        row, blocker = judged.row, judged.blocker
        has_answered = row.answered_at_ms is not None
        return shaped(
            Partition,
            row,
            leader=row.leader if row.leader >= 0 else None,
            leader_epoch=row.leader_epoch if row.leader_epoch >= 0 else None,
            log_start_offset=row.log_start if row.log_start >= 0 else None,
            last_stable_offset=row.last_stable_offset if has_answered else None,
            high_watermark=row.high_watermark if has_answered else None,
            lso_lag_records=row.hidden_records if has_answered else None,
            # null if the LSO has moved since the bytes behind it were read
            lso_lag_bytes=row.hidden_bytes,
            lso_stalled_since=text_of_time(row.stalled_since_ms),
            blocker=None if blocker is None else OpenTransaction.of(blocker, row, cluster, ids, applications),
            open_transactions=[OpenTransaction.of(entry, row, cluster, ids, applications) for entry in judged.entries],
            blocked_groups=list(blocked_groups),
            judged=judged.why is None,
            why=text_of(judged.why),
            observed_at=text_of_time(row.answer_ms),
            href=partition_link(cluster, row.topic, row.partition),
        )


class OnePartition(Partition):
    as_of: Time | None


class Partitions(Page[Partition]): ...


class Group(Shape):
    """A consumer group on a partition where an open transaction affects it. `lag_to_lso` is the lag that clients
    measure; it is 0 for a `read_committed` consumer that waits at the LSO. `lag_to_hw` counts all offsets from the
    group's offset to the high watermark.
    """

    group: str
    topic: str
    partition: int
    committed_offset: Annotated[
        Wide | None,
        Field(
            description="The offset that the group has committed; for a share group, its start offset. Null if the"
            " group has committed no offset, if its first commit is still pending, or if its coordinator does not"
            " report the offset."
        ),
    ]
    last_stable_offset: Annotated[
        Wide | None, Field(description="LSO of this partition; null if the partition is not watched.")
    ]
    high_watermark: Wide | None
    lag_to_lso: Annotated[
        Wide | None,
        Field(description="LSO minus the group's offset; negative if the group's offset is beyond the LSO."),
    ]
    lag_to_hw: Wide | None
    members: Annotated[
        int | None, Field(description="Number of members; null if the group's coordinator does not report it.")
    ]
    relation: Annotated[
        GroupRelationWord,
        Field(
            description="unknown: nothing shows whether the group waits for the transaction. The relation of a share"
            " group follows from its share.isolation.level."
        ),
    ]
    confidence: Annotated[
        Confidence, OneOf(Confidence.CERTAIN, Confidence.LIKELY), Field(description="How certain the relation is.")
    ]
    isolation_level: Annotated[
        IsolationWord | None,
        Field(
            description="share.isolation.level of a share group; null for other groups, because Kafka does not report"
            " their isolation level."
        ),
    ]
    offsets_partition: Annotated[
        int | None,
        Field(
            description="The partition of __consumer_offsets on which the transaction with a pending offset of the"
            " group is open (relation unstable_offsets or inactive)."
        ),
    ]
    producer_id: Annotated[
        Wide | None,
        Field(
            description="The producer id of the transaction with the pending offset; null if its batches could not"
            " be read."
        ),
    ]
    application: Annotated[
        str | None,
        Field(
            description="The application whose open transaction the group waits for, or would wait for; null if not"
            " known."
        ),
    ]
    observed_at: Time | None

    @staticmethod
    def of(group: AffectedGroup, application: str | None) -> Group:
        """Returns the body of a group. `application`: the application whose open transaction affects the group."""
        return shaped(
            Group,
            group.offset,
            committed_offset=group.committed,
            last_stable_offset=None if group.ends is None else group.ends.last_stable_offset,
            high_watermark=None if group.ends is None else group.ends.high_watermark,
            lag_to_lso=group.lag_to_lso,
            lag_to_hw=group.lag_to_hw,
            relation=group.relation,
            confidence=group.confidence,
            isolation_level=group.offset.isolation,
            offsets_partition=group.offsets_partition,
            producer_id=group.waits_for_producer_id,
            application=application,
            observed_at=text_of_time(group.offset.observed_at_ms),
        )


class Groups(Page[Group]): ...


class Marker(Shape):
    """A control record that ended a transaction on the partition."""

    offset: Wide
    at: Annotated[RawTime, Field(description="Time of the marker, by the clock of the partition's leader.")]
    marker: MarkerWord
    producer_id: Wide
    producer_epoch: int
    coordinator_epoch: int
    transactional_id: Annotated[
        str | None, Field(description="The id that had the producer id at that time; null if unknown.")
    ]
    transactional_id_b64: IdBytes
    generation: Annotated[
        int,
        Field(
            description="A number that rises when the topic is created again or its log is cut, because an offset"
            " then names another record."
        ),
    ]
    href: Annotated[str | None, Field(description="Path of its transactional id.")]

    @staticmethod
    def of(row: ledger.Marker, owner: bytes | None, cluster: str) -> Marker:
        """Returns the marker. `owner`: the transactional id that had the marker's producer id when the marker was
        written."""
        transactional_id, id_b64 = id_fields(owner)
        return shaped(
            Marker,
            row,
            at=moment(row.at_ms),
            transactional_id=transactional_id,
            transactional_id_b64=id_b64,
            href=None if owner is None else transaction_link(cluster, owner),
        )


class Markers(Page[Marker]): ...


class VolumeMinute(Shape):
    minute: Annotated[Time | None, Field(description="Start of the minute, by the timestamps of the batches.")]
    records: int
    bytes: Annotated[int, Field(description="Size of the batches as stored in the log, markers included.")]
    transactional_records: int
    commits: Annotated[int, Field(description="Number of COMMIT markers.")]
    aborts: int

    @staticmethod
    def of(volume: ledger.Volume) -> VolumeMinute:
        return shaped(VolumeMinute, volume, minute=text_of_time(volume.minute_ms))


class Volume(Page[VolumeMinute]): ...

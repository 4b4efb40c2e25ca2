"""The bodies of transactional ids: their state, counts, expiry, and the coordinator that decides on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from service.api.http.fields import id_b64, id_text, text_of_time, transaction_link
from service.api.schemas.shape import IdBytes, OneOf, Page, RawTime, Shape, Time, Wide, moment
from service.domain.transaction_log import states
from service.domain.transaction_log.coordinator_partition import (
    coordinator_partition,
    is_left_behind,
    partition_count,
)
from service.domain.transaction_log.deadlines import expires_at_ms, times_out_at_ms
from service.domain.transaction_log.facts import NO_ID
from service.store.queries.clusters import ClusterRow, LogPartitionRow
from service.store.queries.history import MinuteRow
from service.store.rows.ids import IdRow

State = Annotated[
    str,
    OneOf(
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Unknown",
        "Expired",
    ),
]

_OUTCOMES: Final = {
    states.PREPARE_COMMIT: "commit",
    states.COMPLETE_COMMIT: "commit",
    states.PREPARE_ABORT: "abort",
    states.COMPLETE_ABORT: "abort",
}


@dataclass(slots=True, kw_only=True)
class Aborts(Shape):
    """Numbers of aborted transactions, by cause."""

    client: int
    timeout: int
    fenced: int
    admin: int
    unattributed: int

    @staticmethod
    def of(row: IdRow | MinuteRow, waiting: int = 0) -> Aborts:
        """Returns the aborts of an id or a minute. `waiting`: those whose cause waits for the id's next record."""
        return Aborts(
            client=row.aborts_client,
            timeout=row.aborts_timeout,
            fenced=row.aborts_fenced,
            admin=row.aborts_admin,
            unattributed=row.aborts_unattributed + waiting,
        )


@dataclass(slots=True, kw_only=True)
class TopicPartition(Shape):
    topic: str
    partition: int


@dataclass(slots=True, kw_only=True)
class Coordinator(Shape):
    """The leader of the id's partition of `__transaction_state`; null while that partition is not known."""

    partition: int
    leader: int | None
    epoch: int | None


@dataclass(slots=True, kw_only=True)
class Counts(Shape):
    """Transactions of the id that ended since `since`, also those before an expiry of the id."""

    since: Time | None
    commits: int
    aborts: Aborts


@dataclass(slots=True, kw_only=True)
class Transaction(Shape):
    transactional_id: Annotated[
        str, Field(description="The id itself; its display form (escaped) if it is not valid UTF-8.")
    ]
    state: State
    producer_id: Annotated[Wide, Field(description="-1 if none of the id's records could be decoded.")]
    producer_epoch: int
    timeout_ms: Annotated[int, Field(description="2147483647 for a two-phase commit, which never times out.")]
    started_at: RawTime
    last_updated_at: RawTime
    state_since: RawTime
    times_out_at: RawTime
    expires_at: RawTime
    partitions: Annotated[
        list[TopicPartition], Field(description="All partitions while the transaction is open, else empty.")
    ]
    coordinator: Coordinator
    client_transaction_version: int
    previous_producer_id: Wide | None
    last_outcome: Annotated[str, OneOf("commit", "abort")] | None
    counts: Counts
    transactional_id_b64: IdBytes
    href: Annotated[str, Field(description="Path of this transactional id.")]

    @staticmethod
    def of(
        row: IdRow,
        participants: Sequence[tuple[str, int]],
        cluster: ClusterRow,
        coordinators: Mapping[int, LogPartitionRow],
    ) -> Transaction:
        """Returns the id of a row. `participants`: (topic, partition) of the open transaction. `coordinators`: by
        partition of `__transaction_state`, as they were last seen.
        """
        place = row.partition
        times_out_ms = times_out_at_ms(row.state, row.started_at_ms, row.timeout_ms)
        count = partition_count(coordinators, (one.topic_partitions for one in coordinators.values()))
        if is_left_behind(row.transactional_id, row.partition, count):  # no timeout ends it there
            place, times_out_ms = coordinator_partition(row.transactional_id, count) or 0, None
        expires_ms = expires_at_ms(row.state, row.last_update_ms, cluster.expiration_ms)
        log = coordinators.get(place)
        return Transaction(
            transactional_id=id_text(row.transactional_id),
            state=states.NAMES[row.state],
            producer_id=row.producer_id,
            producer_epoch=row.producer_epoch,
            timeout_ms=row.timeout_ms,
            started_at=moment(row.started_at_ms),
            last_updated_at=moment(row.last_update_ms),
            state_since=moment(row.state_since_ms),
            times_out_at=moment(times_out_ms),
            expires_at=moment(expires_ms),
            partitions=[TopicPartition(topic=topic, partition=partition) for topic, partition in participants],
            coordinator=Coordinator(
                partition=place,
                leader=None if log is None else log.leader,
                epoch=None if log is None else log.leader_epoch,
            ),
            client_transaction_version=row.client_transaction_version,
            previous_producer_id=None if row.previous_producer_id == NO_ID else row.previous_producer_id,
            last_outcome=None if row.last_outcome is None else _OUTCOMES[row.last_outcome],
            counts=Counts(
                since=text_of_time(cluster.counted_since_ms),
                commits=row.commits,
                aborts=Aborts.of(row, waiting=waiting_abort_ms(row) is not None),
            ),
            transactional_id_b64=id_b64(row.transactional_id),
            href=transaction_link(cluster.name, row.transactional_id),
        )


def waiting_abort_ms(row: IdRow) -> int | None:
    """Returns when the last abort completed, if it counts but has no cause yet; else None."""
    return row.abort_completed_ms if row.abort_counts and row.settles_at_ms is not None else None


@dataclass(slots=True, kw_only=True)
class OneTransaction(Transaction):
    as_of: Time | None


class Transactions(Page[Transaction]): ...

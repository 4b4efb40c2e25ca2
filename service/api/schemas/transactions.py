"""The bodies of transactional ids: their state, counts, expiry, and the coordinator that decides on them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from service.api.http.fields import id_b64, id_text, text_of_time, transaction_link
from service.api.schemas.shape import IdBytes, OneOf, Page, RawTime, Shape, Time, Wide, moment, shaped
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import NO_ID
from service.store.queries.clusters import ClusterRow
from service.views.transactions.described import DescribedId

State = Annotated[str, OneOf(*states.NAMES.values())]


class Aborts(Shape):
    """Numbers of aborted transactions, by cause."""

    client: int
    timeout: int
    fenced: int
    admin: int
    unattributed: int


class TopicPartition(Shape):
    topic: str
    partition: int


class Coordinator(Shape):
    """The id's partition of `__transaction_state`, with its leader; `leader` and `epoch` are null while the leader is
    not known."""

    partition: int
    leader: int | None
    epoch: int | None


class Counts(Shape):
    """Numbers of the id's transactions that ended since `since`, including those before an expiry of the id."""

    since: Time | None
    commits: int
    aborts: Aborts


class Transaction(Shape):
    transactional_id: Annotated[
        str, Field(description="The id itself; its display form (escaped) if it is not valid UTF-8.")
    ]
    application: Annotated[str | None, Field(description="The application that the id belongs to; null if not known.")]
    state: State
    producer_id: Annotated[
        Wide, Field(description="Producer id of the transactional.id; -1 if none of its records could be decoded.")
    ]
    producer_epoch: int
    timeout_ms: Annotated[
        int, Field(description="Transaction timeout (ms); 2147483647 for a two-phase commit, which never times out.")
    ]
    started_at: RawTime
    last_updated_at: RawTime
    state_since: RawTime
    times_out_at: RawTime
    expires_at: RawTime
    partitions: Annotated[
        list[TopicPartition], Field(description="All partitions of the open transaction; empty if none is open.")
    ]
    coordinator: Coordinator
    client_transaction_version: int
    previous_producer_id: Wide | None
    last_outcome: Annotated[str, OneOf("commit", "abort")] | None
    counts: Counts
    transactional_id_b64: IdBytes
    href: Annotated[str, Field(description="Path of this transactional id.")]

    @staticmethod
    def of(described_id: DescribedId, cluster: ClusterRow) -> Transaction:
        row, record, leader = described_id.row, described_id.row.record, described_id.coordinator
        return shaped(
            Transaction,
            record,
            transactional_id=id_text(row.transactional_id),
            application=row.application,
            state=states.NAMES[record.state],
            started_at=moment(row.started_at_ms),
            last_updated_at=moment(record.last_update_ms),
            state_since=moment(row.state_since_ms),
            times_out_at=moment(described_id.times_out_ms),
            expires_at=moment(described_id.expires_ms),
            partitions=[
                TopicPartition(topic=topic, partition=partition) for topic, partition in described_id.partitions
            ],
            coordinator=Coordinator(
                partition=described_id.log_partition,
                leader=None if leader is None else leader.leader,
                epoch=None if leader is None else leader.leader_epoch,
            ),
            previous_producer_id=None if record.previous_producer_id == NO_ID else record.previous_producer_id,
            last_outcome=described_id.outcome,
            counts=Counts(
                since=text_of_time(cluster.counted_since_ms),
                commits=row.commits,
                aborts=shaped(Aborts, described_id.aborts),
            ),
            transactional_id_b64=id_b64(row.transactional_id),
            href=transaction_link(cluster.name, row.transactional_id),
        )


class OneTransaction(Transaction):
    as_of: Time | None


class Transactions(Page[Transaction]): ...

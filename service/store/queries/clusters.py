"""Reads facts about whole clusters: their description, read progress, source statuses, counts and data gaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, bindparam, exists, or_, select

from service.domain.findings.unreadable import DataGap
from service.domain.reasons.coding import decode_if
from service.domain.reasons.reason import Reason
from service.domain.source_state import LeaseState, SourceName
from service.domain.transaction_log.states import CONFIG_DEFAULTS, EXPIRATION_CONFIG, UNKNOWN
from service.domain.worlds.order import NO_POSITION
from service.domain.worlds.transactions import ANY_EPOCH, HiddenTransactions, Range
from service.store.schema import (
    clusters,
    coordinator_states,
    counters,
    data_gaps,
    leases,
    left_behind_records,
    log_partitions,
    source_status,
)

GAPS_SHOWN: Final = 50


class ClusterRow(NamedTuple):
    """A bound cluster. `description`: as `service.store.clusters.describe` stored it; None if no description was stored
    yet."""

    id: int
    name: str
    kafka_cluster_id: str
    counted_since_ms: int | None
    description: Mapping[str, Any] | None

    @property
    def expiration_ms(self) -> int:
        """Time (ms) after which an unused id expires; Kafka's default if the brokers did not report their setting."""
        described = (self.description or {}).get("configs", {}).get(EXPIRATION_CONFIG, {})
        return int(described.get("value", CONFIG_DEFAULTS[EXPIRATION_CONFIG]))


class LogPartitionRow(NamedTuple):
    """The progress of reading one partition of a source's log. `end_offset` is as of `end_asked_at_ms`.
    `witnessed_from`: the offset from which on every appended record was read, also records that were compacted later.
    `topic_partitions`: the number of partitions in the topic's metadata; None: not known. `records`, `bytes`: the
    numbers read so far, which never fall."""

    source: str
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    next_offset: int
    end_offset: int
    end_asked_at_ms: int
    transitions_per_s: float
    witnessed_from: int = 0
    topic_partitions: int | None = None
    records: int = 0
    bytes: int = 0

    @property
    def lag(self) -> int:
        return max(self.end_offset - self.next_offset, 0)


class StatusRow(NamedTuple):
    """The last status of a source. `as_of_ms`: time of its last success; None before the first success. `error`: the
    reason why the last read of the source failed; None if that read succeeded."""

    source: str
    as_of_ms: int | None
    error: Reason | None


class StateCount(NamedTuple):
    """The number of ids in a state (a number of `transaction_log.states`) in one partition of the transaction log."""

    partition: int
    state: int
    ids: int


class EndedCounts(NamedTuple):
    """Numbers of transactions that ended."""

    commits: int
    aborts: int


_CLUSTERS = select(*(clusters.c[name] for name in ClusterRow._fields)).order_by(clusters.c.name)
_PARTITIONS = select(*(log_partitions.c[name] for name in LogPartitionRow._fields)).order_by(
    log_partitions.c.source, log_partitions.c.topic, log_partitions.c.partition
)
_OF_CLUSTER = _PARTITIONS.where(log_partitions.c.cluster_id == bindparam("cluster_id"))
_OF_SOURCE = _OF_CLUSTER.where(log_partitions.c.source == bindparam("source"))
_STATUSES = (
    select(source_status.c.source, source_status.c.as_of_ms, source_status.c.error)
    .where(source_status.c.cluster_id == bindparam("cluster_id"))
    .order_by(source_status.c.source)
)
_STATES = select(coordinator_states.c.partition, coordinator_states.c.state, coordinator_states.c.ids).where(
    coordinator_states.c.cluster_id == bindparam("cluster_id"), coordinator_states.c.ids != 0
)
_HAS_UNDECODABLE = select(
    or_(
        exists().where(
            coordinator_states.c.cluster_id == bindparam("cluster_id"),
            coordinator_states.c.state == UNKNOWN,
            coordinator_states.c.ids != 0,
        ),
        exists().where(
            left_behind_records.c.cluster_id == bindparam("cluster_id"), left_behind_records.c.state == UNKNOWN
        ),
    )
)
_GAPS = (
    select(data_gaps.c.id, *(data_gaps.c[name] for name in DataGap._fields[1:]))
    .order_by(data_gaps.c.id.desc())
    .limit(GAPS_SHOWN)
)
_L = log_partitions.c


def revision(connection: Connection) -> str | None:
    """Returns the revision of the tables. The tables must exist; without tables, use `service.store.migrate.current`,
    which is slower."""
    return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one_or_none()


def all_clusters(connection: Connection) -> list[ClusterRow]:
    """Returns all clusters, sorted by name."""
    return [ClusterRow(*row) for row in connection.execute(_CLUSTERS)]


def find_cluster(connection: Connection, name: str) -> ClusterRow | None:
    if "\0" in name:
        return None  # no name contains NUL, and a database may refuse to compare with it
    row = connection.execute(_CLUSTERS.where(clusters.c.name == name)).one_or_none()
    return None if row is None else ClusterRow(*row)


def partitions(connection: Connection, cluster_id: int, source: str | None = None) -> list[LogPartitionRow]:
    """Returns the progress of one source or, if `source` is None, of all, sorted by source, topic and partition."""
    chosen = {"cluster_id": cluster_id} if source is None else {"cluster_id": cluster_id, "source": source}
    rows = connection.execute(_OF_CLUSTER if source is None else _OF_SOURCE, chosen)
    return [LogPartitionRow(*row) for row in rows]


def statuses(connection: Connection, cluster_id: int) -> dict[str, StatusRow]:
    """Returns a mapping from source to its status, sorted by source. `as_of_ms` is None where the writer stored 0 for
    "never"."""
    rows = connection.execute(_STATUSES, {"cluster_id": cluster_id})
    return {row.source: StatusRow(row.source, row.as_of_ms or None, decode_if(row.error)) for row in rows}


def has_log(connection: Connection, cluster_id: int) -> bool:
    """Returns whether the store has a position in the cluster's `__transaction_state`: the brokers have, or had, this
    topic."""
    found = select(_L.partition).where(_L.cluster_id == cluster_id, _L.source == SourceName.TRANSACTION_LOG)
    return connection.execute(found.limit(1)).first() is not None


def lease_state(connection: Connection, cluster_id: int) -> LeaseState | None:
    """Returns the state of the cluster's lease; None if no streaming application ever held it."""
    row = connection.execute(
        select(leases.c.renewed_at_ms, leases.c.released).where(leases.c.cluster_id == cluster_id)
    ).one_or_none()
    return None if row is None else LeaseState(row.renewed_at_ms, row.released)


def log_as_of_ms(connection: Connection, cluster_id: int) -> int | None:
    """Returns the time at which the transaction log was last read; None before the first read."""
    status = statuses(connection, cluster_id).get(SourceName.TRANSACTION_LOG)
    return None if status is None else status.as_of_ms


def state_counts(connection: Connection, cluster_id: int) -> list[StateCount]:
    rows = connection.execute(_STATES, {"cluster_id": cluster_id})
    return [StateCount(*row) for row in rows]


def has_undecodable(connection: Connection, cluster_id: int) -> bool:
    """Returns whether the newest record of some id in some partition of the transaction log cannot be decoded."""
    return bool(connection.scalar(_HAS_UNDECODABLE, {"cluster_id": cluster_id}))


def unlabelled_counters(connection: Connection, cluster_id: int) -> dict[str, int]:
    """Returns a mapping from name to value of the cluster's counters without a label
    (`service.store.schema.history`)."""
    rows = connection.execute(
        select(counters.c.name, counters.c.value).where(counters.c.cluster_id == cluster_id, counters.c.label == "")
    )
    return {row.name: row.value for row in rows}


def gaps_since(connection: Connection, cluster_id: int, since_ms: int) -> list[DataGap]:
    """Returns the newest GAPS_SHOWN gaps seen since `since_ms`, newest first."""
    rows = connection.execute(_GAPS.where(data_gaps.c.cluster_id == cluster_id, data_gaps.c.seen_at_ms >= since_ms))
    return [DataGap(*row) for row in rows]


class FirstRead(NamedTuple):
    """Progress of the first read, which reads the records that existed at the first start. Of `end` offsets, `position`
    are read; of `partitions` partitions, `partitions_read` are read."""

    position: int
    end: int
    partitions_read: int
    partitions: int

    @property
    def share(self) -> float:
        """The share of the offsets that has been read, 0 to 1."""
        return self.position / self.end


def first_read(connection: Connection, cluster_id: int) -> FirstRead | None:
    """Returns the progress of the first read; None if the first read is complete, or had no records to read."""
    rows = connection.execute(
        select(_L.next_offset, _L.counted_from, _L.log_start).where(
            _L.cluster_id == cluster_id, _L.source == SourceName.TRANSACTION_LOG
        )
    ).all()
    if all(row.next_offset >= row.counted_from for row in rows):
        return None
    return FirstRead(
        position=sum(max(min(row.next_offset, row.counted_from) - row.log_start, 0) for row in rows),
        end=sum(max(row.counted_from - row.log_start, 0) for row in rows) or 1,
        partitions_read=sum(row.next_offset >= row.counted_from for row in rows),
        partitions=len(rows),
    )


class LogRead(NamedTuple):
    """The store's progress in the transaction log. `read_to`: a mapping from partition to the offset up to which it was
    read. `leaders`: a mapping from partition to its leader, as (broker, epoch). `hidden`: transactions of any id that
    unread or undecoded records may hide. `has_undecodable`: True if the newest record of some id cannot be decoded."""

    read_to: dict[int, int]
    leaders: dict[int, tuple[int, int]]
    hidden: tuple[HiddenTransactions, ...] = ()
    has_undecodable: bool = False


def log_read(connection: Connection, cluster_id: int) -> LogRead:
    rows = partitions(connection, cluster_id, SourceName.TRANSACTION_LOG)
    unseen = [HiddenTransactions(row.partition, NO_POSITION, Range(0, row.witnessed_from), ANY_EPOCH) for row in rows]
    is_odd = has_undecodable(connection, cluster_id)
    if is_odd:
        # an id with an undecodable record may have any producer id
        unseen += [
            HiddenTransactions(row.partition, NO_POSITION, Range(0, row.next_offset + 1), ANY_EPOCH) for row in rows
        ]
    return LogRead(
        {row.partition: row.next_offset for row in rows},
        {row.partition: (row.leader, row.leader_epoch) for row in rows},
        tuple(transactions for transactions in unseen if transactions.decided.hi > transactions.decided.lo),
        is_odd,
    )


def coordinators(connection: Connection, cluster_id: int) -> dict[int, LogPartitionRow]:
    """Returns a mapping from the number of each partition of `__transaction_state` to its progress and leader."""
    return {row.partition: row for row in partitions(connection, cluster_id, SourceName.TRANSACTION_LOG)}

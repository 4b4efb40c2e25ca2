"""Tables of transactional.ids: their present states, their producer ids, and their applications."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
)

from service.domain.transaction_log.states import EXPIRABLE, EXPIRED
from service.store.schema.base import cluster_column, metadata, where
from service.store.schema.history import ABORTED

CAN_EXPIRE: Final = f"state IN ({', '.join(map(str, sorted(EXPIRABLE)))})"
HAS_EXPIRED: Final = f"state = {EXPIRED}"
IS_NEW: Final = "is_examined IS NULL"
"""Queries contain CAN_EXPIRE, HAS_EXPIRED and IS_NEW literally: with parameters, the database would not use the
partial indexes."""

OF_APPLICATION: Final = ("application", "framework", "is_examined")
"""The columns of `transactional_ids` that are about the id's application. They are not derived from records of the
log."""

_IS_OPEN: Final = "started_at_ms IS NOT NULL"

transactional_ids = Table(
    "transactional_ids",
    metadata,
    cluster_column(),
    Column("transactional_id", LargeBinary, nullable=False),
    Column("display", String, nullable=False),
    Column("partition", Integer, nullable=False),  # of __transaction_state: its leader is the coordinator
    Column("generation", Integer, nullable=False),
    # the newest record, field by field as in service.domain.transaction_log.facts.LogRecord; from producer_id on, of
    # the newest record that is no tombstone and can be decoded
    Column("offset", BigInteger, nullable=False),
    Column("timestamp_ms", BigInteger, nullable=False),
    Column("leader_epoch", Integer, nullable=False),
    Column("state", SmallInteger, nullable=False),
    Column("producer_id", BigInteger, nullable=False),
    Column("producer_epoch", Integer, nullable=False),
    Column("timeout_ms", Integer, nullable=False),
    Column("last_update_ms", BigInteger, nullable=False),
    Column("start_ms", BigInteger, nullable=False),
    Column("client_transaction_version", SmallInteger, nullable=False),
    Column("previous_producer_id", BigInteger, nullable=False),
    Column("partition_count", Integer, nullable=False),
    # derived
    Column("state_since_ms", BigInteger, nullable=False),
    Column("started_at_ms", BigInteger),  # of an open transaction, else null
    Column("last_outcome", SmallInteger),  # the PrepareX or CompleteX that shows it; null before the first end
    *(Column(name, BigInteger, nullable=False) for name in ("commits", *ABORTED.values())),
    # service.domain.transaction_log.journal.LastAbort: null before the first abort
    Column("abort_offset", BigInteger),
    Column("abort_cause", String),
    Column("abort_confidence", String),
    Column("abort_is_open", Boolean),
    Column("abort_completed_ms", BigInteger),
    Column("abort_counts", Boolean),
    Column("settles_at_ms", BigInteger),  # set while the abort's cause waits for the id's next record
    # service.store.writers.applications writes these columns; the first read writes only is_examined
    Column("application", String),
    Column("framework", String),
    Column("is_examined", Boolean),  # False: stored by the first read, not examined yet; null: new, examined soon
    PrimaryKeyConstraint("cluster_id", "transactional_id"),
    # without the id: ties cost a small sort, but the id's bytes here would cost the first read a fifth of its time
    Index(None, "cluster_id", "state", "last_update_ms"),
    Index(None, "cluster_id", "state", "transactional_id"),
    Index(None, "cluster_id", "producer_id"),
    # for the ids of a log partition, and its highest epoch of either protocol
    Index("ix_transactional_ids_epoch", "cluster_id", "partition", "client_transaction_version", "producer_epoch"),
    # with the application: the oldest open transaction of each is read from the index alone
    Index(
        "ix_transactional_ids_open",
        *("cluster_id", "started_at_ms", "transactional_id", "application"),
        **where(_IS_OPEN),
    ),
    Index("ix_transactional_ids_settles", "cluster_id", "settles_at_ms", **where("settles_at_ms IS NOT NULL")),
    # the ids that can expire, in the order in which they will. Ids that have expired are left out: they may be many
    # more
    Index("ix_transactional_ids_expiring", "cluster_id", "last_update_ms", **where(CAN_EXPIRE)),
    Index("ix_transactional_ids_expired", "cluster_id", "timestamp_ms", **where(HAS_EXPIRED)),
    Index(
        "ix_transactional_ids_application",
        *("cluster_id", "application", "transactional_id"),
        **where("application IS NOT NULL"),
    ),
    Index("ix_transactional_ids_new", "cluster_id", "transactional_id", **where(IS_NEW)),
)

# The newest records of ids in other log partitions than that of the id's row in `transactional_ids`. They exist if
# partitions were added to the log and the id now hashes to another one (service.store.rows.ids). The columns are those
# of `transactional_ids`, without the application, which belongs to the id.
left_behind_records = Table(
    "left_behind_records",
    metadata,
    cluster_column(),
    *(
        Column(column.name, column.type, nullable=column.nullable)
        for column in transactional_ids.c
        if column.name not in ("cluster_id", *OF_APPLICATION)
    ),
    Column("participants", String),  # of its open transaction, as JSON: [[topic, partition], …]
    PrimaryKeyConstraint("cluster_id", "transactional_id", "partition"),
    Index(None, "cluster_id", "partition"),
    Index(None, "cluster_id", "producer_id"),
    Index(None, "cluster_id", "state"),
    Index("ix_left_behind_records_open", "cluster_id", "started_at_ms", **where(_IS_OPEN)),
)

# The partitions of open transactions; a row is deleted when its transaction completes.
open_participants = Table(
    "open_participants",
    metadata,
    cluster_column(),
    Column("topic", String, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("transactional_id", LargeBinary, nullable=False),
    PrimaryKeyConstraint("cluster_id", "topic", "partition", "transactional_id"),
    Index(None, "cluster_id", "transactional_id"),
)

# The ids that had each producer id, and when: they name the owner of an open entry, even after the id expired.
producer_ids = Table(
    "producer_ids",
    metadata,
    cluster_column(),
    Column("producer_id", BigInteger, nullable=False),
    Column("transactional_id", LargeBinary, nullable=False),
    Column("first_seen_ms", BigInteger, nullable=False),
    Column("last_seen_ms", BigInteger, nullable=False),
    Column("first_epoch", Integer, nullable=False),
    Column("last_epoch", Integer, nullable=False),
    # the newest PrepareX with partitions under this producer id, as Kafka wrote it: it holds the decision and the
    # partitions
    Column("ended_offset", BigInteger),
    Column("ended_state", SmallInteger),
    Column("ended_value", LargeBinary),
    # by id first: rows come ordered by id, and the scattered producer ids get the small index
    PrimaryKeyConstraint("cluster_id", "transactional_id", "producer_id"),
    Index(None, "cluster_id", "producer_id"),
)

# The number of ids in each state, kept up to date by the writer: counting a million rows for every page takes too long.
coordinator_states = Table(
    "coordinator_states",
    metadata,
    cluster_column(),
    Column("partition", Integer, nullable=False),
    Column("state", SmallInteger, nullable=False),
    Column("ids", BigInteger, nullable=False),
    PrimaryKeyConstraint("cluster_id", "partition", "state"),
)

# The number of an application's ids in each state, by the framework that made them. Kept up to date like
# `coordinator_states`.
application_states = Table(
    "application_states",
    metadata,
    cluster_column(),
    Column("application", String, nullable=False),
    Column("framework", String, nullable=False),
    Column("state", SmallInteger, nullable=False),
    Column("ids", BigInteger, nullable=False),
    PrimaryKeyConstraint("cluster_id", "application", "framework", "state"),
)

# Ended transactions by application. They stay with the application to which their id belonged when they were counted,
# so that no number falls when an id expires, or belongs to another application later.
application_totals = Table(
    "application_totals",
    metadata,
    cluster_column(),
    Column("application", String, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
    Column("last_ms", BigInteger, nullable=False),  # when an end was counted last
    *(Column(name, BigInteger, nullable=False) for name in ("commits", *ABORTED.values())),
    PrimaryKeyConstraint("cluster_id", "application"),
)

"""Tables of data partitions as their leaders reported them, with their open entries, their consumer groups, and
operators' attempts to write markers."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
)

from service.store.schema.base import NAME, ROW_ID, cluster_column, metadata, partition_columns, where

# The watched partitions: the newest observation of each (service.domain.partitions.facts.PartitionObservation), and its
# newest read.
data_partitions = Table(
    "data_partitions",
    metadata,
    *partition_columns(),
    Column("topic_id", String, nullable=False),
    Column("leader", Integer, nullable=False),
    Column("leader_epoch", Integer, nullable=False),
    Column("log_start", BigInteger, nullable=False),
    Column("last_stable_offset", BigInteger, nullable=False),
    Column("high_watermark", BigInteger, nullable=False),
    Column("observed_at_ms", BigInteger, nullable=False),
    Column("stalled_since_ms", BigInteger),  # null: not stalled
    Column("why", String),  # service.domain.reasons: why it did not answer; the numbers are those of `answered_at_ms`
    Column("is_gone", Boolean, nullable=False),
    Column("answered_at_ms", BigInteger),  # null: never, or the partition is gone; the numbers are -1
    # StalledRead; all null where there is none, or the LSO has reached the high watermark since
    Column("read_at_ms", BigInteger),
    Column("read_lso", BigInteger),
    Column("described", Boolean),
    Column("is_whole", Boolean),
    Column("lag_bytes", BigInteger),
    Column("read_why", String),  # service.domain.reasons
    # FirstBatch
    Column("first_base_offset", BigInteger),
    Column("first_producer_id", BigInteger),
    Column("first_producer_epoch", Integer),
    Column("first_is_transactional", Boolean),
    Column("first_is_control", Boolean),
    Column("first_timestamp_ms", BigInteger),
    Column("first_max_timestamp_ms", BigInteger),
    Column("samples", String),  # service.domain.worlds.order; null where the partition is not stalled
    Column("why_code", String),
    PrimaryKeyConstraint("cluster_id", "topic", "partition"),
    Index("ix_data_partitions_stalled", "cluster_id", "stalled_since_ms", **where("stalled_since_ms IS NOT NULL")),
)

# The time when all partitions were last observed, also where nothing had changed.
partition_watch = Table(
    "partition_watch",
    metadata,
    Column("cluster_id", Integer, ForeignKey("clusters.id"), primary_key=True, autoincrement=False),
    Column("observed_at_ms", BigInteger, nullable=False),
    Column("not_covered", BigInteger, nullable=False),
)

# Transactions open on a partition: service.domain.partitions.facts.OpenEntry. A producer id has at most one on a
# partition.
open_entries = Table(
    "open_entries",
    metadata,
    *partition_columns(),
    Column("producer_id", BigInteger, nullable=False),
    Column("producer_epoch", Integer, nullable=False),
    Column("start_offset", BigInteger, nullable=False),
    Column("coordinator_epoch", Integer, nullable=False),
    Column("last_timestamp_ms", BigInteger, nullable=False),
    Column("records", BigInteger),
    Column("bytes", BigInteger),
    Column("first_seen_ms", BigInteger, nullable=False),
    Column("seen_at_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("cluster_id", "topic", "partition", "producer_id"),
)

# The committed offsets of consumer groups on stalled partitions.
group_offsets = Table(
    "group_offsets",
    metadata,
    cluster_column(),
    Column("group", NAME, nullable=False),
    Column("topic", NAME, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("committed_offset", BigInteger, nullable=False),  # -1: none
    Column("members", Integer),  # null: the request for them failed
    Column("is_unstable", Boolean, nullable=False),  # an open transaction contains offsets of the group
    Column("observed_at_ms", BigInteger, nullable=False),
    Column("unchanged_since_ms", BigInteger, nullable=False),
    Column("producer_id", BigInteger),  # of that transaction; null: none, or its batches were not read
    Column("isolation", String),  # read_committed or read_uncommitted; null: not a share group
    Column("lso", BigInteger),  # LSO at which the following columns were observed; null: not known
    Column("advances", Integer, nullable=False),
    Column("has_records_ahead", Boolean),  # null: not read
    Column("records_ahead_since_ms", BigInteger),
    PrimaryKeyConstraint("cluster_id", "group", "topic", "partition"),
    Index(None, "cluster_id", "topic", "partition"),
)

# Operators' attempts to write markers: service.store.audit_events.Attempt. Rows are only added; retention deletes them
# after more than a year.
audit = Table(
    "audit",
    metadata,
    Column("id", ROW_ID, primary_key=True),
    cluster_column(),
    Column("at_ms", BigInteger, nullable=False),
    Column("finding_id", String, nullable=False),
    Column("operator", String, nullable=False),
    Column("marker", String, nullable=False),
    Column("topic", String, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("producer_id", BigInteger, nullable=False),
    Column("producer_epoch", Integer, nullable=False),
    Column("coordinator_epoch", Integer, nullable=False),
    Column("start_offset", BigInteger, nullable=False),
    Column("outcome", String, nullable=False),
    Column("error", String),
    Index(None, "cluster_id", "at_ms"),
    Index(None, "cluster_id", "topic", "partition", "producer_id"),
)

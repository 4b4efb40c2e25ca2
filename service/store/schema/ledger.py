"""Tables of tailed partitions: their volume by minute, their markers, and the data of the marker audit."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    String,
    Table,
)

from service.store.schema.base import NUMBERS_ONCE, ROW_ID, cluster_column, metadata, partition_columns

# service.domain.partitions.ledger.Volume. A partition's first row may be empty: it marks the time when counting began.
partition_minutes = Table(
    "partition_minutes",
    metadata,
    *partition_columns(),
    Column("minute_ms", BigInteger, nullable=False),
    Column("records", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("transactional_records", BigInteger, nullable=False),
    Column("commits", BigInteger, nullable=False),
    Column("aborts", BigInteger, nullable=False),
    PrimaryKeyConstraint("cluster_id", "topic", "partition", "minute_ms"),
    Index(None, "cluster_id", "minute_ms"),
)

# service.domain.partitions.ledger.Marker; each generation of a partition has its own offsets.
partition_markers = Table(
    "partition_markers",
    metadata,
    *partition_columns(),
    Column("generation", Integer, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("producer_id", BigInteger, nullable=False),
    Column("producer_epoch", Integer, nullable=False),
    Column("coordinator_epoch", Integer, nullable=False),
    Column("is_commit", Boolean, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("cluster_id", "topic", "partition", "generation", "offset"),
    Index(None, "cluster_id", "at_ms"),
)

# service.domain.partitions.ledger.Unended: transactional records after which no marker was read yet. The row is deleted
# when the marker is read.
unended_records = Table(
    "unended_records",
    metadata,
    *partition_columns(),
    Column("producer_id", BigInteger, nullable=False),
    Column("from_offset", BigInteger, nullable=False),
    Column("seen_at_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("cluster_id", "topic", "partition", "producer_id"),
    Index(None, "cluster_id", "seen_at_ms"),
)

# Decisions of coordinators that are not compared with their markers yet:
# service.domain.partitions.marker_histories.Decision. A row is deleted when it is compared, mostly within seconds, or
# given up.
waiting_decisions = Table(
    "waiting_decisions",
    metadata,
    cluster_column(),
    Column("log_partition", Integer, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("transactional_id", LargeBinary, nullable=False),
    Column("producer_id", BigInteger, nullable=False),
    Column("producer_epoch", Integer, nullable=False),
    Column("is_commit", Boolean, nullable=False),
    Column("start_ms", BigInteger, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("participants", JSON, nullable=False),  # [[topic, partition], …], the tailed ones
    Column("untailed", Integer, nullable=False),
    Column("read_at_ms", BigInteger, nullable=False),
    Column("after_ms", BigInteger),
    PrimaryKeyConstraint("cluster_id", "log_partition", "offset"),
    Index(None, "cluster_id", "read_at_ms"),
)

# Markers that are not compared with their decisions yet: service.domain.partitions.marker_histories.SeenMarker.
waiting_markers = Table(
    "waiting_markers",
    metadata,
    *partition_columns(),
    Column("offset", BigInteger, nullable=False),
    Column("producer_id", BigInteger, nullable=False),
    Column("producer_epoch", Integer, nullable=False),
    Column("is_commit", Boolean, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("ends_from", BigInteger, nullable=False),
    Column("read_at_ms", BigInteger, nullable=False),
    PrimaryKeyConstraint("cluster_id", "topic", "partition", "offset"),
    Index(None, "cluster_id", "read_at_ms"),
)

# The offset from which a partition's markers are compared: not all decisions for markers below it are known.
audited_partitions = Table(
    "audited_partitions",
    metadata,
    *partition_columns(),
    Column("from_offset", BigInteger, nullable=False),
    Column("gaps", BigInteger, nullable=False),  # the newest gap when comparing began; a newer one restarts it
    Column("rejects", BigInteger, nullable=False),  # the same for the newest reject
    PrimaryKeyConstraint("cluster_id", "topic", "partition"),
)

# service.domain.partitions.marker_audit.EndedLog: markers and unended records of deleted topics, of transactions that
# are not compared yet. A row is deleted when none of them is left.
ended_logs = Table(
    "ended_logs",
    metadata,
    *partition_columns(),
    Column("topic_id", String, nullable=False),
    Column("seen_at_ms", BigInteger, nullable=False),
    Column("markers", JSON, nullable=False),  # [[offset, producer_id, producer_epoch, is_commit, at_ms, ends_from], …]
    Column("unended", JSON, nullable=False),  # [[producer_id, from_offset, seen_at_ms], …]
    Column("gaps", BigInteger, nullable=False),  # as in audited_partitions
    Column("rejects", BigInteger, nullable=False),
    PrimaryKeyConstraint("cluster_id", "topic", "partition", "topic_id"),
    Index(None, "cluster_id", "seen_at_ms"),
)

# service.domain.findings.torn.TornTransaction, until the judge has made a finding of it.
torn_transactions = Table(
    "torn_transactions",
    metadata,
    Column("id", ROW_ID, primary_key=True),
    cluster_column(),
    Column("transactional_id", LargeBinary, nullable=False),
    Column("producer_id", BigInteger, nullable=False),
    Column("producer_epoch", Integer, nullable=False),
    Column("is_commit", Boolean, nullable=False),
    Column("log_partition", Integer, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("otherwise", JSON, nullable=False),  # markers: [[topic, partition, offset, is_commit, at_ms], …]
    Column("as_decided", JSON, nullable=False),
    Column("unseen", Integer, nullable=False),
    Column("gone", JSON),  # [[topic, partition, from_offset, seen_at_ms], …]
    Index(None, "cluster_id", "id"),
    **NUMBERS_ONCE,  # findings count each number once
)

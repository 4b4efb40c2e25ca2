"""Tables of clusters, of the progress of reading their logs, of the writer's lease, and of records and offsets that
could not be read."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    String,
    Table,
    UniqueConstraint,
)

from service.store.schema.base import ROW_ID, cluster_column, metadata

clusters = Table(
    "clusters",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("kafka_cluster_id", String, nullable=False, unique=True),
    Column("bound_at_ms", BigInteger, nullable=False),
    Column("counted_since_ms", BigInteger),  # counters and event findings begin here; null before the first start
    Column("described_at_ms", BigInteger),
    Column("description", JSON),  # brokers, features, effective configs, as the cluster reported them
)

# One row: the oldest revision whose version of txnscope can read and write the tables. Each migration writes it.
readable_since = Table(
    "readable_since",
    metadata,
    Column("revision", String, primary_key=True),
)

# One driver writes at a time; `epoch` fences a driver that was replaced.
leases = Table(
    "leases",
    metadata,
    # 0: the notifier's lease; negative: a canary's, and the exporter's (service.store.lease)
    Column("cluster_id", Integer, primary_key=True, autoincrement=False),
    Column("owner", String, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("renewed_at_ms", BigInteger, nullable=False),
    Column("released", Boolean, nullable=False),
)

# The progress of reading, and the log to which it applies: one row for each Kafka partition and source.
log_partitions = Table(
    "log_partitions",
    metadata,
    cluster_column(),
    Column("source", String, nullable=False),
    Column("topic", String, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("topic_id", String, nullable=False),
    Column("generation", Integer, nullable=False),  # rises when the log becomes another one: recreated, diverged
    Column("next_offset", BigInteger, nullable=False),
    Column("leader", Integer, nullable=False),
    Column("leader_epoch", Integer, nullable=False),
    Column("log_start", BigInteger, nullable=False),
    Column("counted_from", BigInteger, nullable=False),  # records below set the states of ids, and are not counted
    Column("end_offset", BigInteger, nullable=False),
    Column("end_asked_at_ms", BigInteger, nullable=False),
    Column("read_at_ms", BigInteger, nullable=False),
    Column("records", BigInteger, nullable=False),  # read since the first start, never falls
    Column("bytes", BigInteger, nullable=False),
    Column("transitions_per_s", Float, nullable=False),  # over the last whole rate window
    Column("window_started_ms", BigInteger, nullable=False),
    Column("window_records", BigInteger, nullable=False),
    Column("witnessed_from", BigInteger, nullable=False),  # every record appended from there on was read
    Column("topic_partitions", Integer),  # of the topic, by its metadata; null: not known
    PrimaryKeyConstraint("cluster_id", "source", "topic", "partition"),
)

# The last status that each source reported, also when it could not read.
source_status = Table(
    "source_status",
    metadata,
    cluster_column(),
    Column("source", String, nullable=False),
    Column("as_of_ms", BigInteger, nullable=False),
    Column("error", String),  # service.domain.reasons; null while all is well
    PrimaryKeyConstraint("cluster_id", "source"),
)

rejects = Table(
    "rejects",
    metadata,
    Column("id", ROW_ID, primary_key=True),
    cluster_column(),
    Column("source", String, nullable=False),
    Column("topic", String, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("reason", String, nullable=False),
    Column("transactional_id", LargeBinary),
    Column("key", LargeBinary),
    Column("value", LargeBinary),
    Column("seen_at_ms", BigInteger, nullable=False),
    UniqueConstraint("cluster_id", "source", "topic", "partition", "generation", "offset"),
    Index(None, "cluster_id", "seen_at_ms"),
)

data_gaps = Table(
    "data_gaps",
    metadata,
    Column("id", ROW_ID, primary_key=True),
    cluster_column(),
    Column("source", String, nullable=False),
    Column("topic", String, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("from_offset", BigInteger, nullable=False),
    Column("to_offset", BigInteger, nullable=False),
    Column("reason", String, nullable=False),
    Column("seen_at_ms", BigInteger, nullable=False),
    Column("missing", BigInteger),  # how many of the offsets are missing; null: all of them
    Index(None, "cluster_id", "seen_at_ms"),
)

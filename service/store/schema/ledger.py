"""Tables of tailed partitions: their volume by minute, and the markers in them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, PrimaryKeyConstraint, Table

from service.store.schema.base import NAME, cluster_column, metadata

# service.domain.partitions.ledger.Volume. A partition's first row may be empty: it marks the time when counting began.
partition_minutes = Table(
    "partition_minutes",
    metadata,
    cluster_column(),
    Column("topic", NAME, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("minute_ms", BigInteger, nullable=False),
    Column("records", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("transactional_records", BigInteger, nullable=False),
    Column("commits", BigInteger, nullable=False),
    Column("aborts", BigInteger, nullable=False),
    PrimaryKeyConstraint("cluster_id", "topic", "partition", "minute_ms"),
    Index(None, "cluster_id", "minute_ms"),
)

# service.domain.partitions.ledger.Marker; offsets begin anew in each generation of a partition.
partition_markers = Table(
    "partition_markers",
    metadata,
    cluster_column(),
    Column("topic", NAME, nullable=False),
    Column("partition", Integer, nullable=False),
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

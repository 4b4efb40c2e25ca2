"""Tables of the canary: the state of its process, and the results of its transactions at each coordinator."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Boolean, Column, Integer, PrimaryKeyConstraint, String, Table

from service.store.schema.base import cluster_column, metadata

# The canary of a cluster: service.store.canary.Canary.
canaries = Table(
    "canaries",
    metadata,
    cluster_column(),
    Column("token", String, nullable=False),  # in its ids: distinguishes it from the canaries of other stores
    Column("topic", String, nullable=False),
    Column("every_ms", BigInteger, nullable=False),
    Column("as_of_ms", BigInteger, nullable=False),  # the process that runs it was alive then
    Column("is_running", Boolean, nullable=False),  # False: it was stopped
    Column("leaderless", Integer, nullable=False),  # partitions of the transaction log without a leader
    Column("trouble", String),  # why it cannot probe; null while it can
    PrimaryKeyConstraint("cluster_id"),
)

# Its rounds at each coordinator: service.domain.canary.rounds.Coordinator.
canary_coordinators = Table(
    "canary_coordinators",
    metadata,
    cluster_column(),
    Column("broker", Integer, nullable=False),
    Column("log_partition", Integer),
    Column("transactional_id", String),
    Column("rounds", BigInteger, nullable=False),
    Column("last_at_ms", BigInteger),
    Column("init_us", BigInteger),
    Column("failing_since_ms", BigInteger),
    Column("phase", String),
    Column("error", String),
    Column("detail", String),
    Column("idle_since_ms", BigInteger),
    Column("failures", JSON, nullable=False),  # number by error
    Column("commits", JSON, nullable=False),  # service.domain.canary.rounds.Latencies
    Column("visibles", JSON, nullable=False),
    Column("recent", JSON, nullable=False),
    PrimaryKeyConstraint("cluster_id", "broker"),
)

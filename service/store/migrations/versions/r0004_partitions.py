"""Tables of data partitions, their open entries, the groups behind them, and the audit; findings get a remediation."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")
_STALLED = "stalled_since_ms IS NOT NULL"
_ADVICE = (("decision", sa.String()), ("command", sa.String()), ("blocked_groups", sa.JSON()))


def upgrade() -> None:
    op.create_table(
        "data_partitions",
        *_place(),
        sa.Column("topic_id", sa.String(), nullable=False),
        sa.Column("leader", sa.Integer(), nullable=False),
        sa.Column("leader_epoch", sa.Integer(), nullable=False),
        *_needed("log_start", "last_stable_offset", "high_watermark", "looked_at_ms"),
        sa.Column("stalled_since_ms", sa.BigInteger()),
        sa.Column("why", sa.String()),
        sa.Column("is_gone", sa.Boolean(), nullable=False),
        sa.Column("absent_until_ms", sa.BigInteger()),
        sa.Column("answered_at_ms", sa.BigInteger()),
        sa.Column("read_at_ms", sa.BigInteger()),
        sa.Column("read_lso", sa.BigInteger()),
        sa.Column("described", sa.Boolean()),
        sa.Column("is_whole", sa.Boolean()),
        sa.Column("lag_bytes", sa.BigInteger()),
        sa.Column("read_why", sa.String()),
        sa.Column("first_base_offset", sa.BigInteger()),
        sa.Column("first_producer_id", sa.BigInteger()),
        sa.Column("first_producer_epoch", sa.Integer()),
        sa.Column("first_is_transactional", sa.Boolean()),
        sa.Column("first_is_control", sa.Boolean()),
        sa.Column("first_timestamp_ms", sa.BigInteger()),
        sa.Column("first_max_timestamp_ms", sa.BigInteger()),
        _of_cluster("data_partitions"),
        sa.PrimaryKeyConstraint("cluster_id", "topic", "partition", name=op.f("pk_data_partitions")),
    )
    op.create_index(
        "ix_data_partitions_stalled",
        "data_partitions",
        ["cluster_id", "stalled_since_ms"],
        sqlite_where=sa.text(_STALLED),
        postgresql_where=sa.text(_STALLED),
    )
    op.create_table(
        "partition_watch",
        sa.Column("cluster_id", sa.Integer(), autoincrement=False, nullable=False),
        *_needed("looked_at_ms", "not_covered"),
        _of_cluster("partition_watch"),
        sa.PrimaryKeyConstraint("cluster_id", name=op.f("pk_partition_watch")),
    )
    op.create_table(
        "open_entries",
        *_place(),
        sa.Column("producer_id", sa.BigInteger(), nullable=False),
        sa.Column("producer_epoch", sa.Integer(), nullable=False),
        sa.Column("start_offset", sa.BigInteger(), nullable=False),
        sa.Column("coordinator_epoch", sa.Integer(), nullable=False),
        sa.Column("last_timestamp_ms", sa.BigInteger(), nullable=False),
        sa.Column("records", sa.BigInteger()),
        sa.Column("bytes", sa.BigInteger()),
        *_needed("first_seen_ms", "seen_at_ms"),
        _of_cluster("open_entries"),
        sa.PrimaryKeyConstraint("cluster_id", "topic", "partition", "producer_id", name=op.f("pk_open_entries")),
    )
    op.create_table(
        "group_offsets",
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("group", _NAME, nullable=False),
        sa.Column("topic", _NAME, nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("committed_offset", sa.BigInteger(), nullable=False),
        sa.Column("members", sa.Integer()),
        sa.Column("is_unstable", sa.Boolean(), nullable=False),
        *_needed("observed_at_ms", "standing_since_ms"),
        _of_cluster("group_offsets"),
        sa.PrimaryKeyConstraint("cluster_id", "group", "topic", "partition", name=op.f("pk_group_offsets")),
    )
    _index("group_offsets", "topic", "partition")
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("finding_id", sa.String(), nullable=False),
        sa.Column("operator", sa.String(), nullable=False),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column("marker", sa.String(), nullable=False),
        sa.Column("topic", sa.String(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("producer_id", sa.BigInteger(), nullable=False),
        sa.Column("producer_epoch", sa.Integer(), nullable=False),
        sa.Column("coordinator_epoch", sa.Integer(), nullable=False),
        sa.Column("start_offset", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("error", sa.String()),
        _of_cluster("audit"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    _index("audit", "at_ms")
    _index("audit", "topic", "partition", "producer_id")
    for column in _ADVICE:
        op.add_column("findings", sa.Column(*column))


def downgrade() -> None:
    for column in _ADVICE:
        op.drop_column("findings", column[0])
    for table in ("audit", "group_offsets", "open_entries", "partition_watch", "data_partitions"):
        op.drop_table(table)


def _place() -> list[sa.Column[object]]:
    return [
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("topic", _NAME, nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
    ]


def _needed(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in names]


def _of_cluster(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f(f"fk_{table}_cluster_id_clusters"))


def _index(table: str, *columns: str) -> None:
    op.create_index(op.f(f"ix_{table}_cluster_id_{'_'.join(columns)}"), table, ["cluster_id", *columns])

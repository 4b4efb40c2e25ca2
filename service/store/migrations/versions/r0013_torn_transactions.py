"""Acknowledgements of findings that stay until somebody has seen them, and what is compared to find torn
transactions."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

_NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")
_ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "acknowledgements",
        sa.Column("id", _ROW_ID, nullable=False),
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("finding_id", sa.String(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_acknowledgements_cluster_id_clusters"),
        sa.PrimaryKeyConstraint("id", name="pk_acknowledgements"),
    )
    op.create_index("ix_acknowledgements_cluster_id_at_ms", "acknowledgements", ["cluster_id", "at_ms"])
    op.create_index("ix_acknowledgements_cluster_id_finding_id", "acknowledgements", ["cluster_id", "finding_id"])
    _create_ledger()


def _create_ledger() -> None:
    _table(
        "unended_records",
        sa.Column("topic", _NAME, nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("producer_id", sa.BigInteger(), nullable=False),
        sa.Column("from_offset", sa.BigInteger(), nullable=False),
        sa.Column("seen_at_ms", sa.BigInteger(), nullable=False),
        key=("topic", "partition", "producer_id"),
        time="seen_at_ms",
    )
    _table(
        "waiting_decisions",
        sa.Column("log_partition", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("transactional_id", sa.LargeBinary(), nullable=False),
        sa.Column("producer_id", sa.BigInteger(), nullable=False),
        sa.Column("producer_epoch", sa.Integer(), nullable=False),
        sa.Column("is_commit", sa.Boolean(), nullable=False),
        sa.Column("start_ms", sa.BigInteger(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("participants", sa.JSON(), nullable=False),
        sa.Column("untailed", sa.Integer(), nullable=False),
        sa.Column("read_at_ms", sa.BigInteger(), nullable=False),
        key=("log_partition", "offset"),
        time="read_at_ms",
    )
    _table(
        "waiting_markers",
        sa.Column("topic", _NAME, nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("producer_id", sa.BigInteger(), nullable=False),
        sa.Column("producer_epoch", sa.Integer(), nullable=False),
        sa.Column("is_commit", sa.Boolean(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("ends_from", sa.BigInteger(), nullable=False),
        sa.Column("read_at_ms", sa.BigInteger(), nullable=False),
        key=("topic", "partition", "offset"),
        time="read_at_ms",
    )
    _table(
        "audited_partitions",
        sa.Column("topic", _NAME, nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("from_offset", sa.BigInteger(), nullable=False),
        sa.Column("gaps", sa.BigInteger(), nullable=False),
        sa.Column("rejects", sa.BigInteger(), nullable=False),
        key=("topic", "partition"),
    )
    op.create_table(
        "torn_transactions",
        sa.Column("id", _ROW_ID, nullable=False),
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("transactional_id", sa.LargeBinary(), nullable=False),
        sa.Column("producer_id", sa.BigInteger(), nullable=False),
        sa.Column("producer_epoch", sa.Integer(), nullable=False),
        sa.Column("is_commit", sa.Boolean(), nullable=False),
        sa.Column("log_partition", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("otherwise", sa.JSON(), nullable=False),
        sa.Column("as_decided", sa.JSON(), nullable=False),
        sa.Column("unseen", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_torn_transactions_cluster_id_clusters"),
        sa.PrimaryKeyConstraint("id", name="pk_torn_transactions"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_torn_transactions_cluster_id_id", "torn_transactions", ["cluster_id", "id"])


def _table(name: str, *columns: sa.Column[Any], key: tuple[str, ...], time: str | None = None) -> None:
    op.create_table(
        name,
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        *columns,
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=f"fk_{name}_cluster_id_clusters"),
        sa.PrimaryKeyConstraint("cluster_id", *key, name=f"pk_{name}"),
    )
    if time is not None:
        op.create_index(f"ix_{name}_cluster_id_{time}", name, ["cluster_id", time])


def downgrade() -> None:
    for table in ("torn_transactions", "audited_partitions", "waiting_markers", "waiting_decisions", "unended_records"):
        op.drop_table(table)
    op.drop_table("acknowledgements")

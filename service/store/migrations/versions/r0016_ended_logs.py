"""Logs of deleted topics that had records of open transactions; when each decision was made, by our clock."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

_NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")
_TABLE = "ended_logs"


def upgrade() -> None:
    op.add_column("waiting_decisions", sa.Column("after_ms", sa.BigInteger()))
    op.add_column("torn_transactions", sa.Column("gone", sa.JSON()))
    op.create_table(
        _TABLE,
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("topic", _NAME, nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("topic_id", sa.String(), nullable=False),
        sa.Column("seen_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("markers", sa.JSON(), nullable=False),
        sa.Column("unended", sa.JSON(), nullable=False),
        sa.Column("gaps", sa.BigInteger(), nullable=False),
        sa.Column("rejects", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=f"fk_{_TABLE}_cluster_id_clusters"),
        sa.PrimaryKeyConstraint("cluster_id", "topic", "partition", "topic_id", name=f"pk_{_TABLE}"),
    )
    op.create_index(f"ix_{_TABLE}_cluster_id_seen_at_ms", _TABLE, ["cluster_id", "seen_at_ms"])


def downgrade() -> None:
    op.drop_table(_TABLE)
    op.drop_column("torn_transactions", "gone")
    op.drop_column("waiting_decisions", "after_ms")

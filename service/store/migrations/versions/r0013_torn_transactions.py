"""Acknowledgements of findings that stay until somebody has seen them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

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


def downgrade() -> None:
    op.drop_table("acknowledgements")

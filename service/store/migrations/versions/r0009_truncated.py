"""A table of the numbers, by kind, of cases without a finding because a bound was reached."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "findings_truncated",
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name=op.f("fk_findings_truncated_cluster_id_clusters")
        ),
        sa.PrimaryKeyConstraint("cluster_id", "kind", name=op.f("pk_findings_truncated")),
    )


def downgrade() -> None:
    op.drop_table("findings_truncated")

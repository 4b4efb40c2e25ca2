"""Tables of findings and of their events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

BY_UPDATE = "ix_transactional_ids_cluster_id_last_update_ms"
BY_STATE_AND_UPDATE = "ix_transactional_ids_cluster_id_state_last_update_ms"


def upgrade() -> None:
    op.create_table(
        "findings",
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.String(), nullable=False) for name in ("id", "kind", "severity", "status", "confidence")),
        sa.Column("topic", sa.String()),
        sa.Column("partition", sa.Integer()),
        sa.Column("transactional_id", sa.LargeBinary()),
        sa.Column("producer_id", sa.BigInteger()),
        sa.Column("producer_epoch", sa.Integer()),
        sa.Column("start_offset", sa.BigInteger()),
        sa.Column("group", sa.String()),
        sa.Column("prefix", sa.String()),
        sa.Column("opened_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("confirmed_at_ms", sa.BigInteger()),
        sa.Column("resolved_at_ms", sa.BigInteger()),
        sa.Column("last_seen_ms", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("reopened", sa.Boolean(), nullable=False),
        sa.Column("resolution", sa.String()),
        sa.Column("owner", sa.String()),
        sa.Column("muted_until_ms", sa.BigInteger()),
        sa.Column("summary", sa.String(), nullable=False),
        sa.Column("advice", sa.String(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.Column("self_heals_at_ms", sa.BigInteger()),
        sa.Column("log_partition", sa.Integer()),
        sa.Column("counted_to", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f("fk_findings_cluster_id_clusters")),
        sa.PrimaryKeyConstraint("cluster_id", "id", name=op.f("pk_findings")),
    )
    for columns in (["opened_at_ms", "id"], ["kind", "status"], ["resolved_at_ms"]):
        name = op.f(f"ix_findings_cluster_id_{'_'.join(columns)}")
        op.create_index(name, "findings", ["cluster_id", *columns])
    op.create_table(
        "finding_events",
        sa.Column("sequence", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("finding_id", sa.String(), nullable=False),
        sa.Column("event", sa.String(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f("fk_finding_events_cluster_id_clusters")),
        sa.PrimaryKeyConstraint("sequence", name=op.f("pk_finding_events")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_rejects_cluster_id_seen_at_ms"), "rejects", ["cluster_id", "seen_at_ms"])
    op.drop_index(op.f(BY_UPDATE), table_name="transactional_ids")
    op.create_index(op.f(BY_STATE_AND_UPDATE), "transactional_ids", ["cluster_id", "state", "last_update_ms"])


def downgrade() -> None:
    op.drop_index(op.f(BY_STATE_AND_UPDATE), table_name="transactional_ids")
    op.create_index(op.f(BY_UPDATE), "transactional_ids", ["cluster_id", "last_update_ms"])
    op.drop_index(op.f("ix_rejects_cluster_id_seen_at_ms"), table_name="rejects")
    op.drop_table("finding_events")
    op.drop_table("findings")

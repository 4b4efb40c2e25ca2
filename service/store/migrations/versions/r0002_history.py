"""History: notable transitions, minutes of ids, the cause of the last abort, the last end under a producer id."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_ABORT: tuple[tuple[str, Any], ...] = (
    ("abort_offset", sa.BigInteger()),
    ("abort_cause", sa.String()),
    ("abort_confidence", sa.String()),
    ("abort_is_open", sa.Boolean()),
    ("abort_completed_ms", sa.BigInteger()),
    ("abort_counts", sa.Boolean()),
    ("settles_at_ms", sa.BigInteger()),
)
_ENDED: tuple[tuple[str, Any], ...] = (
    ("ended_offset", sa.BigInteger()),
    ("ended_state", sa.SmallInteger()),
    ("ended_value", sa.LargeBinary()),
)


def upgrade() -> None:
    for column in _ABORT:
        op.add_column("transactional_ids", sa.Column(*column))
    op.create_index(
        "ix_transactional_ids_settles",
        "transactional_ids",
        ["cluster_id", "settles_at_ms"],
        sqlite_where=sa.text("settles_at_ms IS NOT NULL"),
        postgresql_where=sa.text("settles_at_ms IS NOT NULL"),
    )
    for column in _ENDED:
        op.add_column("producer_ids", sa.Column(*column))
    op.create_table(
        "transitions",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("transactional_id", sa.LargeBinary(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("from_state", sa.SmallInteger(), nullable=False),
        sa.Column("to_state", sa.SmallInteger(), nullable=False),
        sa.Column("producer_id", sa.BigInteger(), nullable=False),
        sa.Column("producer_epoch", sa.Integer(), nullable=False),
        sa.Column("timeout_ms", sa.Integer(), nullable=False),
        sa.Column("duration_ms", sa.BigInteger()),
        sa.Column("marker_ms", sa.BigInteger()),
        sa.Column("cause", sa.String()),
        sa.Column("confidence", sa.String()),
        sa.Column("note", sa.String()),
        sa.Column("counted", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f("fk_transitions_cluster_id_clusters")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_transitions")),
        sa.UniqueConstraint(
            "cluster_id",
            "partition",
            "generation",
            "offset",
            name=op.f("uq_transitions_cluster_id_partition_generation_offset"),
        ),
    )
    op.create_index(
        op.f("ix_transitions_cluster_id_transactional_id_generation_offset"),
        "transitions",
        ["cluster_id", "transactional_id", "generation", "offset"],
    )
    op.create_index(op.f("ix_transitions_cluster_id_at_ms"), "transitions", ["cluster_id", "at_ms"])
    counts = ("commits", "aborts_client", "aborts_timeout", "aborts_fenced", "aborts_admin", "aborts_unattributed")
    durations = ("opened", "open_sum_ms", "open_max_ms", "marked", "marker_sum_ms", "marker_max_ms")
    op.create_table(
        "id_minutes",
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("transactional_id", sa.LargeBinary(), nullable=False),
        *(
            sa.Column(name, sa.BigInteger(), nullable=False)
            for name in ("minute_ms", *counts, *durations, "first_ms", "last_ms")
        ),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f("fk_id_minutes_cluster_id_clusters")),
        sa.PrimaryKeyConstraint("cluster_id", "transactional_id", "minute_ms", name=op.f("pk_id_minutes")),
    )
    op.create_index(op.f("ix_id_minutes_cluster_id_minute_ms"), "id_minutes", ["cluster_id", "minute_ms"])


def downgrade() -> None:
    op.drop_table("id_minutes")
    op.drop_table("transitions")
    for column in _ENDED:
        op.drop_column("producer_ids", column[0])
    op.drop_index("ix_transactional_ids_settles", "transactional_ids")
    for column in _ABORT:
        op.drop_column("transactional_ids", column[0])

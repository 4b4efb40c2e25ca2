"""Keys of people and programs, an audit of all that they do, and the mutes that they set. Attempts to write markers are
copied into the new audit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", _ROW_ID, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("roles", sa.String(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("revoked_at_ms", sa.BigInteger()),
        sa.Column("revoked_by", sa.String()),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("digest", name="uq_api_keys_digest"),
    )
    is_valid = sa.text("revoked_at_ms IS NULL")
    op.create_index(
        "ix_api_keys_valid", "api_keys", ["name"], unique=True, sqlite_where=is_valid, postgresql_where=is_valid
    )
    events = op.create_table(
        "audit_events",
        sa.Column("id", _ROW_ID, nullable=False),
        sa.Column("cluster_id", sa.Integer()),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("who", sa.String(), nullable=False),
        sa.Column("address", sa.String()),
        sa.Column("subject", sa.String()),
        sa.Column("detail", sa.String()),
        sa.Column("times", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_audit_events_cluster_id_clusters"),
        sa.PrimaryKeyConstraint("id", name="pk_audit_events"),
    )
    op.create_index("ix_audit_events_cluster_id_at_ms", "audit_events", ["cluster_id", "at_ms"])
    op.create_table(
        "mutes",
        sa.Column("id", _ROW_ID, nullable=False),
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("finding_id", sa.String()),
        sa.Column("prefix", sa.String()),
        sa.Column("topic", sa.String()),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("set_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("set_by", sa.String(), nullable=False),
        sa.Column("ended_at_ms", sa.BigInteger()),
        sa.Column("ended_by", sa.String()),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_mutes_cluster_id_clusters"),
        sa.PrimaryKeyConstraint("id", name="pk_mutes"),
    )
    op.create_index("ix_mutes_cluster_id_until_ms", "mutes", ["cluster_id", "until_ms"])
    names = ("id", "cluster_id", "at_ms", "finding_id", "operator", "marker", "topic", "partition", "outcome", "error")
    attempts = sa.table("audit", *map(sa.column, names))
    rows = op.get_bind().execute(sa.select(attempts).order_by(attempts.c.id)).all()
    if rows:
        op.bulk_insert(
            events,
            [
                {
                    "cluster_id": row.cluster_id,
                    "at_ms": row.at_ms,
                    "action": "resolve",
                    "outcome": row.outcome,
                    "who": row.operator,
                    "subject": row.finding_id,
                    "detail": f"{row.marker} to {row.topic}-{row.partition}" + (f": {row.error}" if row.error else ""),
                    "times": 1,
                }
                for row in rows
            ],
        )


def downgrade() -> None:
    for table in ("mutes", "audit_events", "api_keys"):
        op.drop_table(table)

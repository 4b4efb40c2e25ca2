"""Columns for the progress of groups: their isolation level, steps above the LSO, and records that they could read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

_COLUMNS = ("isolation", "lso", "advances", "has_records_ahead", "records_ahead_since_ms")


def upgrade() -> None:
    op.add_column("group_offsets", sa.Column("isolation", sa.String()))
    op.add_column("group_offsets", sa.Column("lso", sa.BigInteger()))
    op.add_column("group_offsets", sa.Column("advances", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("group_offsets", sa.Column("has_records_ahead", sa.Boolean()))
    op.add_column("group_offsets", sa.Column("records_ahead_since_ms", sa.BigInteger()))


def downgrade() -> None:
    with op.batch_alter_table("group_offsets") as table:
        for column in _COLUMNS:
            table.drop_column(column)

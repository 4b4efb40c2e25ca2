"""Columns for the proof of a hanging transaction's marker: samples, witnessed offsets, worlds and proofs of
findings."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    with op.batch_alter_table("log_partitions") as table:
        table.add_column(sa.Column("witnessed_from", sa.BigInteger(), nullable=False, server_default="0"))
    # what had been cleaned before it was read was not noticed so far
    op.execute("UPDATE log_partitions SET witnessed_from = next_offset")
    with op.batch_alter_table("log_partitions") as table:
        table.alter_column("witnessed_from", server_default=None)
    op.add_column("data_gaps", sa.Column("missing", sa.BigInteger()))
    with op.batch_alter_table("data_partitions") as table:
        table.drop_column("absent_until_ms")
        table.add_column(sa.Column("samples", sa.String()))
    op.add_column("findings", sa.Column("possible", sa.JSON()))
    op.add_column("findings", sa.Column("proofs", sa.JSON()))


def downgrade() -> None:
    for column in ("possible", "proofs"):
        with op.batch_alter_table("findings") as table:
            table.drop_column(column)
    with op.batch_alter_table("data_partitions") as table:
        table.drop_column("samples")
        table.add_column(sa.Column("absent_until_ms", sa.BigInteger()))
    with op.batch_alter_table("data_gaps") as table:
        table.drop_column("missing")
    with op.batch_alter_table("log_partitions") as table:
        table.drop_column("witnessed_from")

"""A column for the producer id of the transaction that has the pending offset of a group."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("group_offsets", sa.Column("producer_id", sa.BigInteger()))


def downgrade() -> None:
    with op.batch_alter_table("group_offsets") as table:
        table.drop_column("producer_id")

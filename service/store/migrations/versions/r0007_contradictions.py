"""A column for findings whose proofs contradict each other: kept over restarts, so that no decision flips."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("findings", sa.Column("contradiction", sa.String()))


def downgrade() -> None:
    with op.batch_alter_table("findings") as table:
        table.drop_column("contradiction")

"""Records of ids in partitions of the transaction log where no coordinator looks for them: partitions were added. The
number of partitions of each topic that is read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

_TABLE = "left_behind_records"


def upgrade() -> None:
    op.add_column("log_partitions", sa.Column("topic_partitions", sa.Integer()))
    op.create_table(
        _TABLE,
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("transactional_id", sa.LargeBinary(), nullable=False),
        sa.Column("display", sa.String(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("timestamp_ms", sa.BigInteger(), nullable=False),
        sa.Column("leader_epoch", sa.Integer(), nullable=False),
        sa.Column("state", sa.SmallInteger(), nullable=False),
        sa.Column("producer_id", sa.BigInteger(), nullable=False),
        sa.Column("producer_epoch", sa.Integer(), nullable=False),
        sa.Column("timeout_ms", sa.Integer(), nullable=False),
        sa.Column("last_update_ms", sa.BigInteger(), nullable=False),
        sa.Column("start_ms", sa.BigInteger(), nullable=False),
        sa.Column("client_transaction_version", sa.SmallInteger(), nullable=False),
        sa.Column("previous_producer_id", sa.BigInteger(), nullable=False),
        sa.Column("partition_count", sa.Integer(), nullable=False),
        sa.Column("state_since_ms", sa.BigInteger(), nullable=False),
        sa.Column("started_at_ms", sa.BigInteger()),
        sa.Column("last_outcome", sa.SmallInteger()),
        sa.Column("commits", sa.BigInteger(), nullable=False),
        sa.Column("aborts_client", sa.BigInteger(), nullable=False),
        sa.Column("aborts_timeout", sa.BigInteger(), nullable=False),
        sa.Column("aborts_fenced", sa.BigInteger(), nullable=False),
        sa.Column("aborts_admin", sa.BigInteger(), nullable=False),
        sa.Column("aborts_unattributed", sa.BigInteger(), nullable=False),
        sa.Column("abort_offset", sa.BigInteger()),
        sa.Column("abort_cause", sa.String()),
        sa.Column("abort_confidence", sa.String()),
        sa.Column("abort_is_open", sa.Boolean()),
        sa.Column("abort_completed_ms", sa.BigInteger()),
        sa.Column("abort_counts", sa.Boolean()),
        sa.Column("settles_at_ms", sa.BigInteger()),
        sa.Column("participants", sa.String()),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=f"fk_{_TABLE}_cluster_id_clusters"),
        sa.PrimaryKeyConstraint("cluster_id", "transactional_id", "partition", name=f"pk_{_TABLE}"),
    )
    op.create_index(f"ix_{_TABLE}_cluster_id_partition", _TABLE, ["cluster_id", "partition"])
    op.create_index(f"ix_{_TABLE}_cluster_id_producer_id", _TABLE, ["cluster_id", "producer_id"])
    op.create_index(f"ix_{_TABLE}_cluster_id_state", _TABLE, ["cluster_id", "state"])
    is_open = sa.text("started_at_ms IS NOT NULL")
    op.create_index(
        f"ix_{_TABLE}_open",
        _TABLE,
        ["cluster_id", "started_at_ms"],
        sqlite_where=is_open,
        postgresql_where=is_open,
    )


def downgrade() -> None:
    op.drop_table(_TABLE)
    op.drop_column("log_partitions", "topic_partitions")

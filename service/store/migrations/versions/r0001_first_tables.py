"""The first tables: states and counts, folded from the transaction log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:

    op.create_table(
        "clusters",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kafka_cluster_id", sa.String(), nullable=False),
        sa.Column("bound_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("counted_since_ms", sa.BigInteger(), nullable=True),
        sa.Column("described_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("description", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_clusters")),
        sa.UniqueConstraint("name", name=op.f("uq_clusters_name")),
    )
    op.create_table(
        "cluster_minutes",
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("minute_ms", sa.BigInteger(), nullable=False),
        sa.Column("commits", sa.BigInteger(), nullable=False),
        sa.Column("aborts", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f("fk_cluster_minutes_cluster_id_clusters")),
        sa.PrimaryKeyConstraint("cluster_id", "minute_ms", name=op.f("pk_cluster_minutes")),
    )
    op.create_table(
        "coordinator_states",
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("state", sa.SmallInteger(), nullable=False),
        sa.Column("ids", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name=op.f("fk_coordinator_states_cluster_id_clusters")
        ),
        sa.PrimaryKeyConstraint("cluster_id", "partition", "state", name=op.f("pk_coordinator_states")),
    )
    op.create_table(
        "counters",
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("label", sa.String(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f("fk_counters_cluster_id_clusters")),
        sa.PrimaryKeyConstraint("cluster_id", "name", "label", name=op.f("pk_counters")),
    )
    op.create_table(
        "data_gaps",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("topic", sa.String(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("from_offset", sa.BigInteger(), nullable=False),
        sa.Column("to_offset", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("seen_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f("fk_data_gaps_cluster_id_clusters")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_data_gaps")),
    )
    op.create_table(
        "leases",
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("renewed_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("released", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f("fk_leases_cluster_id_clusters")),
        sa.PrimaryKeyConstraint("cluster_id", name=op.f("pk_leases")),
    )
    op.create_table(
        "log_partitions",
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("topic", sa.String(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("topic_id", sa.String(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("next_offset", sa.BigInteger(), nullable=False),
        sa.Column("leader", sa.Integer(), nullable=False),
        sa.Column("leader_epoch", sa.Integer(), nullable=False),
        sa.Column("log_start", sa.BigInteger(), nullable=False),
        sa.Column("counted_from", sa.BigInteger(), nullable=False),
        sa.Column("end_offset", sa.BigInteger(), nullable=False),
        sa.Column("end_asked_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("read_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("records", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("transitions_per_s", sa.Float(), nullable=False),
        sa.Column("window_started_ms", sa.BigInteger(), nullable=False),
        sa.Column("window_records", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f("fk_log_partitions_cluster_id_clusters")),
        sa.PrimaryKeyConstraint("cluster_id", "source", "topic", "partition", name=op.f("pk_log_partitions")),
    )
    op.create_table(
        "open_participants",
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("topic", sa.String(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("transactional_id", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f("fk_open_participants_cluster_id_clusters")),
        sa.PrimaryKeyConstraint(
            "cluster_id", "topic", "partition", "transactional_id", name=op.f("pk_open_participants")
        ),
    )
    op.create_index(
        op.f("ix_open_participants_cluster_id_transactional_id"),
        "open_participants",
        ["cluster_id", "transactional_id"],
    )

    op.create_table(
        "producer_ids",
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("producer_id", sa.BigInteger(), nullable=False),
        sa.Column("transactional_id", sa.LargeBinary(), nullable=False),
        sa.Column("first_seen_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_ms", sa.BigInteger(), nullable=False),
        sa.Column("first_epoch", sa.Integer(), nullable=False),
        sa.Column("last_epoch", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f("fk_producer_ids_cluster_id_clusters")),
        sa.PrimaryKeyConstraint("cluster_id", "transactional_id", "producer_id", name=op.f("pk_producer_ids")),
    )
    op.create_index(op.f("ix_producer_ids_cluster_id_producer_id"), "producer_ids", ["cluster_id", "producer_id"])

    op.create_table(
        "rejects",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("topic", sa.String(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("transactional_id", sa.LargeBinary(), nullable=True),
        sa.Column("key", sa.LargeBinary(), nullable=True),
        sa.Column("value", sa.LargeBinary(), nullable=True),
        sa.Column("seen_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f("fk_rejects_cluster_id_clusters")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rejects")),
        sa.UniqueConstraint(
            "cluster_id",
            "source",
            "topic",
            "partition",
            "generation",
            "offset",
            name=op.f("uq_rejects_cluster_id_source_topic_partition_generation_offset"),
        ),
    )
    op.create_table(
        "source_status",
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("as_of_ms", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f("fk_source_status_cluster_id_clusters")),
        sa.PrimaryKeyConstraint("cluster_id", "source", name=op.f("pk_source_status")),
    )
    op.create_table(
        "transactional_ids",
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
        sa.Column("started_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("last_outcome", sa.SmallInteger(), nullable=True),
        sa.Column("commits", sa.BigInteger(), nullable=False),
        sa.Column("aborts_client", sa.BigInteger(), nullable=False),
        sa.Column("aborts_timeout", sa.BigInteger(), nullable=False),
        sa.Column("aborts_fenced", sa.BigInteger(), nullable=False),
        sa.Column("aborts_admin", sa.BigInteger(), nullable=False),
        sa.Column("aborts_unattributed", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f("fk_transactional_ids_cluster_id_clusters")),
        sa.PrimaryKeyConstraint("cluster_id", "transactional_id", name=op.f("pk_transactional_ids")),
    )
    op.create_index(
        op.f("ix_transactional_ids_cluster_id_last_update_ms"), "transactional_ids", ["cluster_id", "last_update_ms"]
    )
    op.create_index(op.f("ix_transactional_ids_cluster_id_partition"), "transactional_ids", ["cluster_id", "partition"])
    op.create_index(
        op.f("ix_transactional_ids_cluster_id_producer_id"), "transactional_ids", ["cluster_id", "producer_id"]
    )
    op.create_index(
        op.f("ix_transactional_ids_cluster_id_state_transactional_id"),
        "transactional_ids",
        ["cluster_id", "state", "transactional_id"],
    )
    op.create_index(
        "ix_transactional_ids_open",
        "transactional_ids",
        ["cluster_id", "started_at_ms", "transactional_id"],
        sqlite_where=sa.text("started_at_ms IS NOT NULL"),
        postgresql_where=sa.text("started_at_ms IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_table("transactional_ids")
    op.drop_table("source_status")
    op.drop_table("rejects")
    op.drop_table("producer_ids")
    op.drop_table("open_participants")
    op.drop_table("log_partitions")
    op.drop_table("leases")
    op.drop_table("data_gaps")
    op.drop_table("counters")
    op.drop_table("coordinator_states")
    op.drop_table("cluster_minutes")
    op.drop_table("clusters")

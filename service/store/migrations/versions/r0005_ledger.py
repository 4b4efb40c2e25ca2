"""Tables of the ledger of tailed partitions: volume by minute, and markers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_NAME = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "partition_minutes",
        *_place(),
        *_needed("minute_ms", "records", "bytes", "transactional_records", "commits", "aborts"),
        _of_cluster("partition_minutes"),
        sa.PrimaryKeyConstraint("cluster_id", "topic", "partition", "minute_ms", name=op.f("pk_partition_minutes")),
    )
    _index("partition_minutes", "minute_ms")
    op.create_table(
        "partition_markers",
        *_place(),
        sa.Column("generation", sa.Integer(), nullable=False),
        *_needed("offset", "producer_id"),
        sa.Column("producer_epoch", sa.Integer(), nullable=False),
        sa.Column("coordinator_epoch", sa.Integer(), nullable=False),
        sa.Column("is_commit", sa.Boolean(), nullable=False),
        *_needed("at_ms"),
        _of_cluster("partition_markers"),
        sa.PrimaryKeyConstraint(
            "cluster_id", "topic", "partition", "generation", "offset", name=op.f("pk_partition_markers")
        ),
    )
    _index("partition_markers", "at_ms")


def downgrade() -> None:
    for table in ("partition_markers", "partition_minutes"):
        op.drop_table(table)


def _place() -> list[sa.Column[object]]:
    return [
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("topic", _NAME, nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
    ]


def _needed(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger(), nullable=False) for name in names]


def _of_cluster(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f(f"fk_{table}_cluster_id_clusters"))


def _index(table: str, *columns: str) -> None:
    op.create_index(op.f(f"ix_{table}_cluster_id_{'_'.join(columns)}"), table, ["cluster_id", *columns])

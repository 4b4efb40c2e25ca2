"""Definitions that all tables share: the metadata, types of columns, and the column of the cluster."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, MetaData, String

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

ROW_ID = BigInteger().with_variant(Integer, "sqlite")
"""The type of ids that count up: SQLite counts up only a column that is exactly INTEGER."""

NAME = String().with_variant(String(collation="C"), "postgresql")
"""The type of topic and group names that queries sort by: PostgreSQL sorts them by their bytes, as SQLite does."""


def cluster_column() -> Column[int]:
    """Returns the column `cluster_id`, which every such table has: the cluster that a row belongs to."""
    return Column("cluster_id", Integer, ForeignKey("clusters.id"), nullable=False)

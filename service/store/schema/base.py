"""What all tables share."""

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
"""SQLite counts up only a column that is exactly INTEGER."""

NAME = String().with_variant(String(collation="C"), "postgresql")
"""Of topics and groups, where they are sorted by: by their bytes, as SQLite does."""


def cluster_column() -> Column[int]:
    """Whose row it is: every table has it."""
    return Column("cluster_id", Integer, ForeignKey("clusters.id"), nullable=False)

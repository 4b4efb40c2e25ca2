"""Definitions that all tables share: the metadata, types of columns, and the column of the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, MetaData, String, text
from sqlalchemy.types import TypeEngine

from service.store.backends import backends

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

ROW_ID: TypeEngine[int] = BigInteger()
"""The type of row ids that the database numbers."""

NAME: TypeEngine[str] = String()
"""The type of topic and group names, which queries sort by their bytes."""

NUMBERS_ONCE: Final[dict[str, Any]] = {}
"""Options of a table that never gives a row id twice."""

for _name, _backend in backends().items():
    ROW_ID = ROW_ID.with_variant(_backend.row_id, _name)
    NAME = NAME.with_variant(_backend.name, _name)
    NUMBERS_ONCE.update(_backend.numbers_once)


def where(condition: str) -> dict[str, Any]:
    """Returns the options of a partial index, which holds only rows that fulfil the condition."""
    return {f"{name}_where": text(condition) for name in backends()}


def cluster_column() -> Column[int]:
    """Returns the column `cluster_id` of a table whose rows belong to a cluster."""
    return Column("cluster_id", Integer, ForeignKey("clusters.id"), nullable=False)


def partition_columns() -> Iterator[Column[Any]]:
    """Yields the columns `cluster_id`, `topic` and `partition` of a table whose rows belong to a partition."""
    yield cluster_column()
    yield Column("topic", NAME, nullable=False)
    yield Column("partition", Integer, nullable=False)

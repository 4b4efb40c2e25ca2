"""Drops the indexes of ids before the first read into an empty store, and builds them after the log was read.

Updating the indexes row by row would take longer than writing the rows themselves. Building the indexes from the
finished tables takes a third of that time. Until then queries scan the tables. Partial indexes of few rows stay: they
cost little, and the list of open transactions uses one of them.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Engine, Index, inspect, select

from service.store.schema import producer_ids, transactional_ids

_TABLES: Final = (transactional_ids, producer_ids)
_OF_FEW_ROWS: Final = {
    *("ix_transactional_ids_open", "ix_transactional_ids_settles"),
    *("ix_transactional_ids_application", "ix_transactional_ids_new"),
}


def drop_where_empty(engine: Engine) -> None:
    """Drops the indexes if no cluster has ids in the store."""
    with engine.begin() as connection:
        for table in _TABLES:
            if connection.execute(select(table).limit(1)).first() is not None:
                return
        for index in _indexes():
            index.drop(connection, checkfirst=True)


def missing(engine: Engine) -> list[Index]:
    """Returns the indexes that the store does not have."""
    found = {index["name"] for table in _TABLES for index in inspect(engine).get_indexes(table.name)}
    return [index for index in _indexes() if index.name not in found]


def build_one(engine: Engine, missing: list[Index]) -> None:
    """Builds the last index in `missing`, unless another process has built it, and removes it from `missing`. Writers
    wait meanwhile: about a second for a million ids. If StoreUnavailable is raised, try again."""
    with engine.begin() as connection:
        missing[-1].create(connection, checkfirst=True)
    missing.pop()


def _indexes() -> list[Index]:
    indexes = [index for table in _TABLES for index in table.indexes if index.name not in _OF_FEW_ROWS]
    return sorted(indexes, key=lambda index: str(index.name))

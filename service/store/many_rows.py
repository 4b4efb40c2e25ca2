"""Reads the rows of many ids or partitions by an index, and writes many rows with an INSERT … ON CONFLICT that is
compiled once.

SQLAlchemy's own executemany inspects every value of every row. The inspection takes half the time of the first read of
a large log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, TypeVar

from sqlalchemy import JSON, Connection, Dialect, Row, Select, Table, bindparam, func, tuple_

from service.domain.partitions.facts import TopicPartition
from service.store.backends import backend_for, backend_of
from service.store.backends.backend import Backend, OnConflict

_IDS_AT_ONCE: Final = 1_000

_PARTITIONS_AT_ONCE: Final = 100
"""Maximum number of partitions in one statement. A database server takes time to plan for each partition, so several
statements are faster than one long statement."""

_JSON: Final = JSON()

Item = TypeVar("Item")


def look_up(
    connection: Connection, table: Table, columns: Sequence[str], cluster_id: int, ids: Sequence[bytes]
) -> Iterator[Row[*tuple[Any, ...]]]:
    """Yields `columns` of the rows of `table` with these ids. `table` must have the columns `cluster_id` and
    `transactional_id`."""
    statement = _select_ids(connection.dialect, table, tuple(columns))
    for some in batched(ids, _IDS_AT_ONCE):
        yield from connection.execute(statement, {"cluster": cluster_id, "ids": some})


@lru_cache(maxsize=64)  # building a statement takes longer than running it
def _select_ids(dialect: Dialect, table: Table, columns: Sequence[str]) -> Select[Any]:
    return backend_for(dialect).select_ids(table, columns)


def rows_at(
    connection: Connection,
    statement: Select[Any],
    table: Table,
    cluster_id: int,
    places: Sequence[TopicPartition] | None,
    **chosen: int,
) -> Iterator[Row[*tuple[Any, ...]]]:
    """Yields the rows of `statement` for the partitions in `places`, or for all partitions if `places` is None.
    `table`, from which `statement` selects, must have the columns cluster_id, topic and partition. `chosen`: parameters
    of `statement`. Pass the same `statement` object each time, because the statements built from it are cached."""
    of_cluster = _of_cluster(statement, table)
    if places is None:
        yield from connection.execute(of_cluster, chosen | {"cluster_id": cluster_id})
        return
    at_places = _at_places(of_cluster, table)
    for some in batched(places, _PARTITIONS_AT_ONCE):
        yield from connection.execute(at_places, chosen | {"cluster_id": cluster_id, "places": some})


@lru_cache
def _of_cluster(statement: Select[Any], table: Table) -> Select[Any]:
    return statement.where(table.c.cluster_id == bindparam("cluster_id"))


@lru_cache
def _at_places(of_cluster: Select[Any], table: Table) -> Select[Any]:
    return of_cluster.where(tuple_(table.c.topic, table.c.partition).in_(bindparam("places", expanding=True)))


@dataclass(eq=False)
class Upsert:
    """An INSERT … ON CONFLICT into `table`. Rows are tuples in the order of `columns` (default: all).

    If the key exists, columns in `replace` take the new value; columns in `fill` take the new value unless it is null;
    columns in `add` grow by the new value; columns in `most` and `least` keep the larger or smaller value; all others
    stay unchanged. With `only_new` an existing key raises IntegrityError.
    """

    table: Table
    _: KW_ONLY
    columns: Sequence[str] = ()
    key: Sequence[str] = ()
    replace: Sequence[str] = ()
    fill: Sequence[str] = ()
    add: Sequence[str] = ()
    most: Sequence[str] = ()
    least: Sequence[str] = ()
    only_new: bool = False

    def __post_init__(self) -> None:
        self.columns = self.columns or self.table.c.keys()
        self.key = self.key or self.table.primary_key.columns.keys()

    def write(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Writes the rows one after another: a row is applied to the result of an earlier row with the same key."""
        if not rows:
            return
        options = backend_of(connection).bulk_options(self, connection, rows)
        connection.exec_driver_sql(_insert(self, connection.dialect), list(rows), execution_options=options)

    def repeats(self, rows: Sequence[tuple[Any, ...]]) -> bool:
        """Returns True if two of the rows have the same key, and the Upsert changes existing rows."""
        if not (self.replace or self.fill or self.add or self.most or self.least):
            return False
        key_of = itemgetter(*(self.columns.index(name) for name in self.key))
        return len(set(map(key_of, rows))) < len(rows)

    def on_conflict(self, backend: Backend, statement: OnConflict) -> OnConflict:
        """Returns the INSERT with its ON CONFLICT clause; if `only_new` is True, without this clause."""
        if self.only_new:
            return statement
        here, incoming = self.table.c, statement.excluded
        changes: dict[str, Any] = {name: incoming[name] for name in self.replace}
        changes |= {name: func.coalesce(incoming[name], here[name]) for name in self.fill}
        changes |= {name: here[name] + incoming[name] for name in self.add}
        changes |= {name: backend.larger(here[name], incoming[name]) for name in self.most}
        changes |= {name: backend.smaller(here[name], incoming[name]) for name in self.least}
        key = [here[name] for name in self.key]
        if changes:
            return statement.on_conflict_do_update(index_elements=key, set_=changes)
        return statement.on_conflict_do_nothing(index_elements=key)


def batched(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Yields slices of at most `size` items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def json_for(connection: Connection) -> Callable[[object], object]:
    """Returns the function that encodes a JSON value for the database's driver: `Upsert` bypasses SQLAlchemy's own
    encoding."""
    return _JSON.dialect_impl(connection.dialect).bind_processor(connection.dialect) or (lambda value: value)


@lru_cache(maxsize=256)
def _insert(upsert: Upsert, dialect: Dialect) -> str:
    """Returns the INSERT … VALUES … ON CONFLICT; its parameters are in the order of the columns."""
    backend = backend_for(dialect)
    statement = backend.insert(upsert.table).values({name: bindparam(name) for name in upsert.columns})
    compiled = upsert.on_conflict(backend, statement).compile(dialect=dialect)
    if compiled.positiontup != list(upsert.columns):
        raise AssertionError(f"{upsert.table.name}: parameters in another order than the columns")
    return str(compiled)

"""Finds the rows of many ids, or of many partitions, at once: by an index, however large the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, LargeBinary, Row, Select, Table, bindparam, func, select, true, tuple_
from sqlalchemy.dialects.postgresql import ARRAY

from service.domain.partitions.facts import Place
from service.store.upsert import batched

_IDS_AT_ONCE: Final = 1_000


def look_up(
    connection: Connection, table: Table, columns: Sequence[str], cluster_id: int, ids: Sequence[bytes]
) -> Iterator[Row[*tuple[Any, ...]]]:
    """Yields `columns` of the rows with these ids; `table` has `cluster_id` and `transactional_id`."""
    statement = _statement(table, tuple(columns), connection.dialect.name == "postgresql")
    for some in batched(ids, _IDS_AT_ONCE):
        yield from connection.execute(statement, {"cluster": cluster_id, "ids": some})


@lru_cache(maxsize=64)
def _statement(table: Table, columns: tuple[str, ...], by_steps: bool) -> Select[Any]:
    of_cluster = table.c.cluster_id == bindparam("cluster")
    if not by_steps:
        among = table.c.transactional_id.in_(bindparam("ids", expanding=True))
        return select(*(table.c[name] for name in columns)).where(of_cluster, among)
    # PostgreSQL's statistics say little about a table that grew by 100,000 rows since they were made, and it would
    # rather read the whole table. OFFSET keeps the inner query as it is: one step through the index for each id.
    wanted = func.unnest(bindparam("ids", type_=ARRAY(LargeBinary))).table_valued("id").render_derived(name="wanted")
    of_one = table.c.transactional_id == wanted.c.id
    found = select(*(table.c[name] for name in columns)).where(of_cluster, of_one).offset(0).lateral("found")
    return select(*found.c).select_from(wanted.join(found, true()))


_PLACES_AT_ONCE: Final = 100
"""Most partitions in one statement: PostgreSQL plans each of them, so several statements are faster than a longer
one."""


def rows_at(
    connection: Connection,
    statement: Select[Any],
    table: Table,
    cluster_id: int,
    places: Sequence[Place] | None,
    **chosen: int,
) -> Iterator[Row[*tuple[Any, ...]]]:
    """Yields the rows of `statement` for these partitions, or for all if `places` is None; `table` has cluster_id,
    topic and partition. Pass the same `statement` object each time; `chosen` are its own parameters."""
    of_cluster = _of_cluster(statement, table)
    if places is None:
        yield from connection.execute(of_cluster, chosen | {"cluster_id": cluster_id})
        return
    at_places = _at_places(of_cluster, table)
    for some in batched(places, _PLACES_AT_ONCE):
        yield from connection.execute(at_places, chosen | {"cluster_id": cluster_id, "places": some})


@lru_cache  # building a statement takes longer than running it
def _of_cluster(statement: Select[Any], table: Table) -> Select[Any]:
    return statement.where(table.c.cluster_id == bindparam("cluster_id"))


@lru_cache
def _at_places(of_cluster: Select[Any], table: Table) -> Select[Any]:
    return of_cluster.where(tuple_(table.c.topic, table.c.partition).in_(bindparam("places", expanding=True)))

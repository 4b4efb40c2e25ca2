"""Finds the rows of many partitions at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, Table, bindparam, tuple_

from service.domain.partitions.facts import Place
from service.store.upsert import batched

_AT_ONCE: Final = 100
"""PostgreSQL plans each of them: for more at once it takes longer than for as many in several statements."""


def rows_at(
    connection: Connection,
    statement: Select[Any],
    table: Table,
    cluster_id: int,
    places: Sequence[Place] | None,
    **chosen: int,
) -> Iterator[Row[*tuple[Any, ...]]]:
    """The rows of `statement` that are of these partitions, or of all; `table` has cluster_id, topic and partition.
    `statement` should be the same object each time; `chosen`: its own parameters."""
    of_cluster = _of_cluster(statement, table)
    if places is None:
        yield from connection.execute(of_cluster, chosen | {"cluster_id": cluster_id})
        return
    at_places = _at_places(of_cluster, table)
    for some in batched(places, _AT_ONCE):
        yield from connection.execute(at_places, chosen | {"cluster_id": cluster_id, "places": some})


@lru_cache  # a statement takes longer to write than to run
def _of_cluster(statement: Select[Any], table: Table) -> Select[Any]:
    return statement.where(table.c.cluster_id == bindparam("cluster_id"))


@lru_cache
def _at_places(of_cluster: Select[Any], table: Table) -> Select[Any]:
    return of_cluster.where(tuple_(table.c.topic, table.c.partition).in_(bindparam("places", expanding=True)))

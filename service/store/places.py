"""Finds the rows of many partitions at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, Table, tuple_

from service.domain.partition_facts import Place
from service.store.upsert import batched

_AT_ONCE: Final = 100
"""PostgreSQL plans each of them: for more at once it takes longer than for as many in several statements."""


def rows_at(
    connection: Connection, statement: Select[Any], table: Table, cluster_id: int, places: Sequence[Place] | None
) -> Iterator[Row[*tuple[Any, ...]]]:
    """The rows of `statement` that are of these partitions, or of all; `table` has cluster_id, topic and partition."""
    of_cluster = statement.where(table.c.cluster_id == cluster_id)
    if places is None:
        yield from connection.execute(of_cluster)
        return
    for some in batched(places, _AT_ONCE):
        yield from connection.execute(of_cluster.where(tuple_(table.c.topic, table.c.partition).in_(some)))

"""Finds the rows of many ids at once, on both databases by the index on (cluster, id) however large the table is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, LargeBinary, Row, Select, Table, bindparam, func, select, true
from sqlalchemy.dialects.postgresql import ARRAY

from service.store.upsert import batched

_AT_ONCE: Final = 1_000


def look_up(
    connection: Connection, table: Table, columns: Sequence[str], cluster_id: int, ids: Sequence[bytes]
) -> Iterator[Row[*tuple[Any, ...]]]:
    """`columns` of the rows with these ids; `table` has `cluster_id` and `transactional_id`."""
    statement = _statement(table, tuple(columns), connection.dialect.name == "postgresql")
    for some in batched(ids, _AT_ONCE):
        yield from connection.execute(statement, {"cluster": cluster_id, "ids": some})


@lru_cache(maxsize=64)
def _statement(table: Table, columns: tuple[str, ...], by_steps: bool) -> Select[Any]:
    of_cluster = table.c.cluster_id == bindparam("cluster")
    if not by_steps:
        among = table.c.transactional_id.in_(bindparam("ids", expanding=True))
        return select(*(table.c[name] for name in columns)).where(of_cluster, among)
    # PostgreSQL knows little of a table that grew by 100,000 rows since it was looked at, and would rather read all of
    # it. OFFSET keeps the inner query what it is: one step through the index for each id.
    wanted = func.unnest(bindparam("ids", type_=ARRAY(LargeBinary))).table_valued("id").render_derived(name="wanted")
    of_one = table.c.transactional_id == wanted.c.id
    found = select(*(table.c[name] for name in columns)).where(of_cluster, of_one).offset(0).lateral("found")
    return select(*found.c).select_from(wanted.join(found, true()))

"""Writes many rows at once: INSERT … ON CONFLICT, compiled once and handed to the driver without detours.

SQLAlchemy's own executemany looks at every value of every row; for the first read of a large log that is half the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from sqlalchemy import Connection, Dialect, Table, bindparam, func
from sqlalchemy.dialects import postgresql, sqlite

Item = TypeVar("Item")


class Upsert:
    """How rows get into `table`: columns named in `replace` take the new value, those in `fill` unless it is null.

    Those in `add` grow by it, in `most` and `least` the larger or smaller of both stays; others stay as they are.
    Rows are tuples in the order of `columns` (default: all).
    """

    def __init__(
        self,
        table: Table,
        *,
        columns: Sequence[str] = (),
        key: Sequence[str] = (),
        replace: Sequence[str] = (),
        fill: Sequence[str] = (),
        add: Sequence[str] = (),
        most: Sequence[str] = (),
        least: Sequence[str] = (),
    ) -> None:
        self.table = table
        self.columns = tuple(columns) or tuple(table.c.keys())
        self.key = tuple(key) or tuple(table.primary_key.columns.keys())
        self.replace = tuple(replace)
        self.fill = tuple(fill)
        self.add = tuple(add)
        self.most = tuple(most)
        self.least = tuple(least)

    def write(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        if not rows:
            return
        sql, names = _compiled(self, connection.dialect)
        if names is None:
            connection.exec_driver_sql(sql, list(rows))
        else:
            connection.exec_driver_sql(sql, [dict(zip(names, row, strict=True)) for row in rows])


def batched(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Slices of at most `size` items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


@lru_cache(maxsize=256)
def _compiled(upsert: Upsert, dialect: Dialect) -> tuple[str, tuple[str, ...] | None]:
    """The SQL, and the names of its parameters unless the driver takes them by position."""
    table, columns = upsert.table, upsert.columns
    insert = postgresql.insert if dialect.name == "postgresql" else sqlite.insert
    statement = insert(table).values({name: bindparam(name) for name in columns})
    changes: dict[str, Any] = {name: statement.excluded[name] for name in upsert.replace}
    changes |= {name: func.coalesce(statement.excluded[name], table.c[name]) for name in upsert.fill}
    changes |= {name: table.c[name] + statement.excluded[name] for name in upsert.add}
    larger, smaller = (func.greatest, func.least) if dialect.name == "postgresql" else (func.max, func.min)
    changes |= {name: larger(table.c[name], statement.excluded[name]) for name in upsert.most}
    changes |= {name: smaller(table.c[name], statement.excluded[name]) for name in upsert.least}
    key = [table.c[name] for name in upsert.key]
    if changes:
        statement = statement.on_conflict_do_update(index_elements=key, set_=changes)
    else:
        statement = statement.on_conflict_do_nothing(index_elements=key)
    compiled = statement.compile(dialect=dialect)
    if not compiled.positional:
        return str(compiled), columns
    if compiled.positiontup != list(columns):
        raise AssertionError(f"{table.name}: parameters in another order than the columns")
    return str(compiled), None

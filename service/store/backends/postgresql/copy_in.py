"""Writes many rows by PostgreSQL's COPY instead of an INSERT for each.

SQLAlchemy treats the COPY as an executemany, so it handles errors, transactions and lost connections as usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Column, ColumnClause, Dialect, Engine, Table, column, event, select, table
from sqlalchemy.engine.interfaces import ExecutionContext

from service.store.backends import backend_for
from service.store.many_rows import Upsert

COPIES_FROM: Final = 500
"""Number of rows from which COPY is faster than one INSERT each: 1.3 times at 1,000, 1.6 at 10,000."""

_COPY_IN: Final = "txnscope_copy_in"
"""The execution option that holds the `CopyIn` to use."""

_DRIVERS_NAMES: Final = {"FLOAT": "float8"}


def options(upsert: Upsert, dialect: Dialect, rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """Returns the execution options of the INSERT of these rows. Rows with a repeated key are not copied, because one
    INSERT … SELECT cannot change a row twice."""
    copies = len(rows) >= COPIES_FROM and not upsert.repeats(rows)
    return {_COPY_IN: _copy_in(upsert, dialect)} if copies else {}


def listen(engine: Engine) -> None:
    """Makes the engine copy rows where the options have a `CopyIn`."""
    event.listen(engine, "do_executemany", _do_executemany)


@lru_cache(maxsize=256)
def _copy_in(upsert: Upsert, dialect: Dialect) -> CopyIn:
    columns = [upsert.table.c[name] for name in upsert.columns]
    if upsert.only_new:
        return CopyIn(dialect, upsert.table, columns, None)
    incoming: list[ColumnClause[Any]] = [column(name) for name in upsert.columns]
    rows = select(*incoming).select_from(table(_source_name(upsert.table), *incoming))
    backend = backend_for(dialect)
    statement = upsert.on_conflict(backend, backend.insert(upsert.table).from_select(upsert.columns, rows))
    return CopyIn(dialect, upsert.table, columns, str(statement.compile(dialect=dialect)))


class CopyIn:
    """Copies rows of `columns` into the temporary table `_source_name(table)`, from which the statement `insert` moves
    them to `table`. Without `insert` the rows are copied directly into `table`."""

    def __init__(self, dialect: Dialect, table: Table, columns: Sequence[Column[Any]], insert: str | None) -> None:
        quote = dialect.identifier_preparer.quote
        incoming = quote(table.name) if insert is None else _source_name(table)
        names = ", ".join(quote(column.name) for column in columns)
        # once for each connection: a temporary table for each transaction would bloat the system catalogue
        create = f"CREATE TEMPORARY TABLE IF NOT EXISTS {incoming} AS TABLE {quote(table.name)} WITH NO DATA"
        self._before = () if insert is None else (create,)
        self._copy = f"COPY {incoming} ({names}) FROM STDIN (FORMAT BINARY)"
        self._after = () if insert is None else (insert, f"TRUNCATE {incoming}")
        types = (column.type.compile(dialect).partition(" COLLATE ")[0] for column in columns)
        self._types = [_DRIVERS_NAMES.get(name, name.lower()) for name in types]

    def run(self, cursor: Any, rows: Sequence[tuple[Any, ...]]) -> None:
        """Copies the rows; `cursor` is psycopg's."""
        for statement in self._before:
            cursor.execute(statement)
        with cursor.copy(self._copy) as copy:
            copy.set_types(self._types)
            for row in rows:
                copy.write_row(row)
        for statement in self._after:
            cursor.execute(statement)


def _source_name(table: Table) -> str:
    """Returns the name of the temporary table for rows on their way into `table`. The temporary table has the columns
    of `table`, and none of its constraints."""
    return f"incoming_{table.name}"


def _do_executemany(cursor: Any, _statement: str, rows: Any, context: ExecutionContext) -> bool:
    """Returns whether the rows were copied; if not, SQLAlchemy executes the INSERTs."""
    copy_in: CopyIn | None = context.execution_options.get(_COPY_IN)
    if copy_in is None:
        return False
    copy_in.run(cursor, rows)
    return True

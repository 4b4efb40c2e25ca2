"""PostgreSQL's COPY for many rows at once: into a temporary table, and from there by one INSERT … SELECT … ON CONFLICT.

It runs as what SQLAlchemy calls an executemany, so errors, transactions and lost connections are dealt with as ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Column, Dialect, Engine, Table, event
from sqlalchemy.engine.interfaces import ExecutionContext

COPY_IN: Final = "txnscope_copy_in"
"""The execution option that holds the `CopyIn` to use; an engine without `listen` executes the INSERTs instead."""

_DRIVERS_NAMES: Final = {"FLOAT": "float8"}


class CopyIn:
    """How rows of `columns` get into `table`. `insert`, in the dialect's SQL, takes them from `source_name(table)`."""

    def __init__(self, dialect: Dialect, table: Table, columns: Sequence[Column[Any]], insert: str) -> None:
        quote = dialect.identifier_preparer.quote
        incoming, names = source_name(table), ", ".join(quote(column.name) for column in columns)
        # once for each connection: tables that come and go with every transaction would swell the catalogue
        self._create = f"CREATE TEMPORARY TABLE IF NOT EXISTS {incoming} AS TABLE {quote(table.name)} WITH NO DATA"
        self._copy = f"COPY {incoming} ({names}) FROM STDIN (FORMAT BINARY)"
        self._insert = insert
        self._empty = f"TRUNCATE {incoming}"
        types = (column.type.compile(dialect).partition(" COLLATE ")[0] for column in columns)
        self._types = [_DRIVERS_NAMES.get(name, name.lower()) for name in types]

    def run(self, cursor: Any, rows: Sequence[tuple[Any, ...]]) -> None:
        """`cursor`: of psycopg."""
        cursor.execute(self._create)
        with cursor.copy(self._copy) as copy:
            copy.set_types(self._types)
            for row in rows:
                copy.write_row(row)
        cursor.execute(self._insert)
        cursor.execute(self._empty)


def source_name(table: Table) -> str:
    """The temporary table for rows that are on their way into `table`: its columns, and none of its constraints."""
    return f"incoming_{table.name}"


def listen(engine: Engine) -> None:
    """From now on the engine copies where COPY_IN says so."""
    event.listen(engine, "do_executemany", _do_executemany)


def _do_executemany(cursor: Any, _statement: str, rows: Any, context: ExecutionContext) -> bool:
    """Answers whether it is done."""
    copy_in: CopyIn | None = context.execution_options.get(COPY_IN)
    if copy_in is None:
        return False
    copy_in.run(cursor, rows)
    return True

"""Finds the rows of many ids or partitions at once, by an index, and writes many at once: INSERT … ON CONFLICT,
compiled once.

SQLAlchemy's own executemany inspects every value of every row; for the first read of a large log that is half the time.

For SQLAlchemy a write here is an executemany too, so it handles errors, transactions and lost connections as for any
other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, TypeVar

from sqlalchemy import (
    Column,
    ColumnClause,
    Connection,
    Dialect,
    Engine,
    LargeBinary,
    Row,
    Select,
    Table,
    bindparam,
    column,
    event,
    func,
    select,
    table,
    true,
    tuple_,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.engine.interfaces import ExecutionContext

from service.domain.partitions.facts import TopicPartition

_IDS_AT_ONCE: Final = 1_000

_PLACES_AT_ONCE: Final = 100
"""Maximum number of partitions in one statement: PostgreSQL plans each of them, so several statements are faster than a
longer one."""

COPIES_FROM: Final = 500
"""Number of rows from which COPY is faster on PostgreSQL than one INSERT each: 1.3 times at 1,000, 1.6 at 10,000."""

Item = TypeVar("Item")

COPY_IN: Final = "txnscope_copy_in"
"""The execution option that holds the `CopyIn` to use; an engine without `listen` executes the INSERTs instead."""

_DRIVERS_NAMES: Final = {"FLOAT": "float8"}


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


def rows_at(
    connection: Connection,
    statement: Select[Any],
    table: Table,
    cluster_id: int,
    places: Sequence[TopicPartition] | None,
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


class Upsert:
    """The rule by which rows get into `table`: where the key exists, columns named in `replace` take the new value, and
    those in `fill` take it unless it is null.

    Columns in `add` grow by the new value; in `most` and `least` the larger or smaller value stays; all others stay as
    they are. With `only_new` a key that exists raises IntegrityError. Rows are tuples in the order of `columns`
    (default: all).
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
        only_new: bool = False,
    ) -> None:
        self.table = table
        self.columns = tuple(columns) or tuple(table.c.keys())
        self.key = tuple(key) or tuple(table.primary_key.columns.keys())
        self.replace = tuple(replace)
        self.fill = tuple(fill)
        self.add = tuple(add)
        self.most = tuple(most)
        self.least = tuple(least)
        self.only_new = only_new

    def write(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Writes the rows one after another: a row meets the result of an earlier row with the same key."""
        if not rows:
            return
        copies = connection.dialect.name == "postgresql" and len(rows) >= COPIES_FROM and not self._repeats(rows)
        options = {COPY_IN: _copy_in(self, connection.dialect)} if copies else {}
        connection.exec_driver_sql(_insert(self, connection.dialect), list(rows), execution_options=options)

    def _repeats(self, rows: Sequence[tuple[Any, ...]]) -> bool:
        """Returns whether two rows with the same key would change one row: a single INSERT … SELECT cannot change it
        twice."""
        if not (self.replace or self.fill or self.add or self.most or self.least):
            return False
        key_of = itemgetter(*(self.columns.index(name) for name in self.key))
        return len(set(map(key_of, rows))) < len(rows)


def batched(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Yields slices of at most `size` items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


@lru_cache(maxsize=256)
def _insert(upsert: Upsert, dialect: Dialect) -> str:
    """Returns the INSERT … VALUES … ON CONFLICT; its parameters are the columns by position."""
    statement = _into(upsert, dialect).values({name: bindparam(name) for name in upsert.columns})
    compiled = _on_conflict(upsert, statement).compile(dialect=dialect)
    if compiled.positiontup != list(upsert.columns):
        raise AssertionError(f"{upsert.table.name}: parameters in another order than the columns")
    return str(compiled)


@lru_cache(maxsize=256)
def _copy_in(upsert: Upsert, dialect: Dialect) -> CopyIn:
    columns = [upsert.table.c[name] for name in upsert.columns]
    if upsert.only_new:
        return CopyIn(dialect, upsert.table, columns, None)
    incoming: list[ColumnClause[Any]] = [column(name) for name in upsert.columns]
    rows = select(*incoming).select_from(table(source_name(upsert.table), *incoming))
    statement = _on_conflict(upsert, _into(upsert, dialect).from_select(upsert.columns, rows))
    return CopyIn(dialect, upsert.table, columns, str(statement.compile(dialect=dialect)))


def _into(upsert: Upsert, dialect: Dialect) -> postgresql.Insert | sqlite.Insert:
    return (postgresql.insert if dialect.name == "postgresql" else sqlite.insert)(upsert.table)


def _on_conflict(upsert: Upsert, statement: postgresql.Insert | sqlite.Insert) -> postgresql.Insert | sqlite.Insert:
    if upsert.only_new:
        return statement
    changes: dict[str, Any] = {name: statement.excluded[name] for name in upsert.replace}
    here, incoming = upsert.table.c, statement.excluded
    changes |= {name: func.coalesce(incoming[name], here[name]) for name in upsert.fill}
    changes |= {name: here[name] + incoming[name] for name in upsert.add}
    on_postgresql = isinstance(statement, postgresql.Insert)
    larger, smaller = (func.greatest, func.least) if on_postgresql else (func.max, func.min)
    changes |= {name: larger(here[name], incoming[name]) for name in upsert.most}
    changes |= {name: smaller(here[name], incoming[name]) for name in upsert.least}
    key = [here[name] for name in upsert.key]
    if changes:
        return statement.on_conflict_do_update(index_elements=key, set_=changes)
    return statement.on_conflict_do_nothing(index_elements=key)


class CopyIn:
    """Copies rows of `columns` into `table` by way of a temporary table. `insert`, in the dialect's SQL, takes the rows
    from `source_name(table)`. Without it the rows go straight into the table."""

    def __init__(self, dialect: Dialect, table: Table, columns: Sequence[Column[Any]], insert: str | None) -> None:
        quote = dialect.identifier_preparer.quote
        incoming = quote(table.name) if insert is None else source_name(table)
        names = ", ".join(quote(column.name) for column in columns)
        # once for each connection: tables that come and go with every transaction would swell the catalogue
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


def source_name(table: Table) -> str:
    """Returns the name of the temporary table for rows on their way into `table`; it has the table's columns, and none
    of its constraints."""
    return f"incoming_{table.name}"


def listen(engine: Engine) -> None:
    """Makes the engine copy rows where the option COPY_IN is set."""
    event.listen(engine, "do_executemany", _do_executemany)


def _do_executemany(cursor: Any, _statement: str, rows: Any, context: ExecutionContext) -> bool:
    """Returns whether the rows were copied; if not, SQLAlchemy executes the INSERTs."""
    copy_in: CopyIn | None = context.execution_options.get(COPY_IN)
    if copy_in is None:
        return False
    copy_in.run(cursor, rows)
    return True

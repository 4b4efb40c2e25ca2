"""The interface of a database that can hold a store: everything beyond the SQL that all databases share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from sqlalchemy import (
    URL,
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
    Select,
    String,
    Table,
    bindparam,
    create_engine,
    func,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError
from sqlalchemy.types import TypeEngine

from service.store.errors import SECRETS, StoreError, in_one_line, redact_url

if TYPE_CHECKING:
    from service.store.many_rows import Upsert

OnConflict: TypeAlias = sqlite.Insert | postgresql.Insert
"""An INSERT that may have an ON CONFLICT clause. A database with another syntax for the clause needs a subclass of
Insert that compiles to this syntax."""


class Lock(Enum):
    """Kinds of work for which a transaction takes a lock of its own, beyond the locks of the rows that it writes."""

    MIGRATE = auto()
    BIND_CLUSTER = auto()
    NUMBER_EVENTS = auto()
    """Numbering new events of findings. Without the lock, a transaction could commit a lower number after a listener
    has read a higher one. Listeners read only numbers above the last one that they read, so they would miss that
    event."""
    AUDIT = auto()
    """Adding rows to `audit`. Several writers can hold this lock at the same time; a transaction that holds it can add
    a row."""


class SalvagedTable(NamedTuple):
    """The result for one table of a damaged store. `is_whole`: False if an unknown number of rows is missing."""

    table: str
    rows: int
    is_whole: bool


class Rebuilt(NamedTuple):
    """The result of a rebuild: the tables of the new store, and the path of the old file. `counts_go_on`: False if the
    clusters, counters or positions could not be read completely, so that counting starts again from 0."""

    tables: tuple[SalvagedTable, ...]
    old_file: str
    counts_go_on: bool


class Backend(Protocol):
    """One kind of database. Methods that are not abstract have a default that fits most databases."""

    data_version: str
    """A query for a value that changes on one connection whenever another connection changes the store."""

    row_id: TypeEngine[int] = BigInteger()
    """The type of row ids that the database numbers."""

    name: TypeEngine[str] = String()
    """The type of topic and group names. They are sorted by their bytes."""

    numbers_once: Mapping[str, bool] = {}
    """Options of a table that never reuses the id of a deleted row."""

    @abstractmethod
    def resolve(self, url: URL) -> URL | None:
        """Returns the URL completed with the name of the database driver; None if the URL names another database or
        driver. Raises StoreError if no store can be at this URL."""

    @abstractmethod
    def open_writer(self, url: URL, *, may_create: bool, wait_s: float) -> Engine:
        """Returns an engine as `service.store.engine.open_engine` does."""

    @abstractmethod
    def open_reader(self, url: URL, *, wait_s: float) -> Engine:
        """Returns an engine as `service.store.engine.open_reader` does."""

    @abstractmethod
    def rebuild(self, url: URL, now_ms: int) -> Rebuilt:
        """Rebuilds a damaged store as `service.store.migrate.rebuild` does."""

    @abstractmethod
    def insert(self, table: Table) -> OnConflict: ...

    def larger(self, column_element: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.greatest(column_element, other)

    def smaller(self, column_element: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.least(column_element, other)

    def bulk_options(self, upsert: Upsert, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
        """Returns the execution options that make the INSERT of these rows fastest."""
        return {}

    def select_ids(self, table: Table, columns: Sequence[str]) -> Select[Any]:
        """Returns a statement that selects `columns` of a cluster's rows by ids, with the help of an index. The
        statement has the parameters `cluster` and `ids`."""
        among = table.c.transactional_id.in_(bindparam("ids", expanding=True))
        return select(*(table.c[name] for name in columns)).where(table.c.cluster_id == bindparam("cluster"), among)

    def lock(self, connection: Connection, work: Lock) -> None:
        """Takes the lock for `work`, and keeps the lock until the transaction ends. Waits while another transaction
        holds the lock. Does nothing if a writing transaction excludes all other writing transactions anyway."""
        return

    def exclude_others(self, connection: Connection, tables: Sequence[str]) -> None:
        """Locks the tables until the transaction ends, because the transaction will change them. Waits until no other
        transaction uses one of the tables, and avoids deadlocks. Does nothing if readers and a writing transaction do
        not disturb each other anyway."""
        return

    def commit_early(self, connection: Connection) -> None:
        """Lets the transaction's commit return before the commit is on disk. A later commit that waits for the disk
        makes this commit durable, too."""
        return

    def end_stopped_writer(self, engine: Engine, cluster_id: int) -> None:
        """Ends a database session that keeps the cluster's row of `leases` locked because its client was stopped in the
        middle of a transaction. Otherwise the row would stay locked until the client continues."""
        return

    def check_texts(self, connection: Connection) -> None:
        """Raises StoreError if the database's encoding cannot hold every text."""
        return

    def extend_text_index(self, engine: Engine) -> bool:
        """Adds some ids to the index for searches in their texts. Returns whether ids were added."""
        return False

    def drop_text_index(self, connection: Connection) -> None:
        """Drops the index for searches in texts, if it exists. Call it before a migration, which may recreate the table
        of ids."""
        return

    def find_texts(self, connection: Connection, parts: Iterable[str], most: int) -> ColumnElement[bool] | None:
        """Returns the condition for rows of `transactional_ids` whose texts may contain one of `parts`, ignoring case.
        Returns None if no index helps, or if more than `most` texts match."""
        return None


def create(url: URL, arguments: Mapping[str, Any], **options: Any) -> Engine:
    """Returns a SQLAlchemy engine. `arguments`: connect arguments for the database driver. Raises StoreError if the URL
    has invalid arguments."""
    # where SQLAlchemy prints an engine, it hides the password before the host, but not passwords in the query
    secret = {name: url.normalized_query[name][-1] for name in SECRETS if name in url.query}
    try:
        return create_engine(url.difference_update_query(secret), connect_args={**arguments, **secret}, **options)
    except (ArgumentError, TypeError, ValueError) as error:
        raise StoreError(f"store {redact_url(url)}: {in_one_line(error)}") from error

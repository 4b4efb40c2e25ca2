"""Opens the store's engines, with errors of one line each; hides passwords in its URL from people, logs and answers."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Dialect, Engine, create_engine, event, make_url
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DisconnectionError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import ConnectionPoolEntry

from service.store import many_rows
from service.store.sqlite_file import FileSeen, is_damaged, store_file

_CREDENTIALS: Final = re.compile(r"(?s)(^[^:/@]*:/*)?.*@")
"""Matches, in a text that no parser takes for a URL, everything after the scheme up to the last @."""
_IN_QUERY: Final = re.compile(r"(?i)(password=)[^&]*")  # libpq's password, sslpassword

_SECRET_IN_QUERY: Final = ("password", "sslpassword")

_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
_BUSY_TIMEOUT_S = 5.0

API_WAIT_S: Final = 30.0
"""Time that a request that writes waits for a lock before it is answered with 503."""

_LONGEST_READ_S: Final = 30.0
"""Time after which PostgreSQL ends a statement of a reader: each reads a bounded number of rows."""

# SQLite ignores page_size and auto_vacuum after the very first write, and setting journal_mode is that write
_WRITER_PRAGMAS = (
    "page_size = 8192",  # the first read touches most pages of every index in every transaction: fewer, larger writes
    "auto_vacuum = INCREMENTAL",
    "journal_mode = WAL",
    "synchronous = NORMAL",
    "foreign_keys = ON",
    "temp_store = MEMORY",
    "cache_size = -65536",  # KiB; one connection only. The first read dirties pages all over the indexes
    "wal_autocheckpoint = 8192",  # pages: as many as journal_size_limit holds
    "journal_size_limit = 67108864",
)
_READER_PRAGMAS = (
    "query_only = ON",
    "temp_store = MEMORY",
    "cache_size = -8192",  # KiB, for each pooled connection
)

# a host that died without closing its connections is noticed after some 20 s, not after libpq's two hours
_GONE_AFTER: Final[dict[str, str | int]] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}

_SQLITE_REMEDY: Final = (
    "`txnscope migrate --rebuild` makes the store anew: what can be read is saved, and"
    " the transaction log is read again"
)
POSTGRESQL_REMEDY: Final = (
    "restore a backup of the database, or give --store a new one: the transaction log is read again"
)

_SESSION_ATTRS: Final = "target_session_attrs"

_READ_ONLY_STATE: Final = "25006"
_DAMAGED_STATES: Final = frozenset({"XX001", "XX002"})

# primary result codes of SQLite that may pass by themselves or when room is made; all others are mistakes
_PASSING = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)


class StoreError(Exception):
    """The store cannot be used as asked: the URL is bad, the file is foreign, or the caller broke a promise."""


class StoreUnavailable(StoreError):
    """The store is locked, full or down. Nothing was written; the same call may succeed later."""


class StoreLost(StoreError):
    """The store is not what it was when this process opened it: a writer has to start again from the beginning."""


class StoreReplaced(StoreLost):
    """The file that a writer has open was deleted or replaced: what it writes there would be lost."""


class StoreDamaged(StoreLost):
    """The pages of the store do not fit together. It can be made anew, because the transaction log is the truth."""


class ClusterMismatch(StoreError):
    """The cluster's name is bound to another Kafka cluster, or the Kafka cluster to another name."""


class LeaseLost(StoreError):
    """Another driver holds the lease and writes now; this one has to stop."""


class OutOfSequence(StoreError):
    """A batch does not begin at the store's progress; reading has to start again from there."""


def redact_url(url: URL) -> str:
    """Returns the URL with *** for passwords."""
    return _IN_QUERY.sub(r"\1***", url.render_as_string(hide_password=True))


def redact_text(url: str) -> str:
    """Hides the credentials of a text that is no URL as `redact_url` does. User names go too, because nothing shows
    where they end."""
    return _IN_QUERY.sub(r"\1***", _CREDENTIALS.sub(r"\1***@", url, count=1))


def open_engine(url: str, *, must_exist: bool = False, wait_s: float = _BUSY_TIMEOUT_S) -> Engine:
    """Returns the writer's engine. On SQLite every transaction takes the write lock at once; elsewhere rows are locked.

    A SQLite file that is missing is created by the first connection, unless it `must_exist`. From then on the engine
    keeps to that file: StoreReplaced is raised once it was deleted or replaced. `wait_s`: time to wait for a lock.

    StoreError: the URL is no store. Whatever is executed raises StoreUnavailable while the store is locked, full,
    read-only or down, and StoreDamaged.
    """
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        engine = _create(parsed, pool_size=1, max_overflow=0, connect_args=_sqlite_arguments(parsed, wait_s))
        _SqliteSessions(engine, _WRITER_PRAGMAS, "BEGIN IMMEDIATE", may_create=not must_exist, keeps_file=True)
    else:
        arguments = _postgresql_arguments(parsed, options=f"-c lock_timeout={wait_s:.0f}s")
        engine = _create(parsed, pool_pre_ping=True, connect_args=arguments, paramstyle="format")
        event.listen(engine, "handle_error", _translate_read_only)
        many_rows.listen(engine)
    return engine


def open_reader(url: str) -> Engine:
    """Returns an engine that cannot write; one transaction sees one state of the store. Errors as `open_engine`, but no
    StoreReplaced: it opens the new file. It never creates one.

    On PostgreSQL it reads only from a server that can be written, unless the URL sets target_session_attrs: a primary
    that was demoted shows a past that nobody brings up to date.
    """
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        engine = _create(parsed, connect_args=_sqlite_arguments(parsed, _BUSY_TIMEOUT_S))
        _SqliteSessions(engine, _READER_PRAGMAS, "BEGIN", may_create=False, keeps_file=False)
    else:
        # a generic plan (one for all values) expects every page to be a tenth of the table, and sorts rows that an
        # index has in order
        limits = f"-c statement_timeout={_LONGEST_READ_S:.0f}s -c lock_timeout={_BUSY_TIMEOUT_S:.0f}s"
        arguments = _postgresql_arguments(parsed, options=f"-c plan_cache_mode=force_custom_plan {limits}")
        engine = _create(parsed, pool_pre_ping=True, connect_args=arguments, isolation_level="REPEATABLE READ")
        event.listen(engine, "begin", _read_only)
        if _SESSION_ATTRS not in parsed.query:
            event.listen(engine, "begin", _check_primary)
    return engine


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise StoreError(f"store {redact_text(url)!r}: not a URL like sqlite:///txnscope.db") from error
    backend = parsed.get_backend_name()
    if parsed.drivername not in (backend, _DRIVERS.get(backend)) or backend not in _DRIVERS:
        raise StoreError(f"store {redact_url(parsed)}: neither sqlite:///FILE nor postgresql://HOST/DATABASE")
    if backend == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            raise StoreError(f"store {redact_url(parsed)}: needs a file, it is shared by two processes")
        _check_folder(parsed)
    return parsed.set(drivername=_DRIVERS[backend])


def _check_folder(url: URL) -> None:
    folder = Path(url.database or "").parent
    try:
        is_there = folder.is_dir()
    except OSError as error:  # the name is too long, or access is denied
        raise StoreError(f"store {redact_url(url)}: {folder}: {error.strerror}") from error
    if not is_there:
        raise StoreError(f"store {redact_url(url)}: no directory {folder}")


def _create(url: URL, **options: Any) -> Engine:
    # SQLAlchemy hides the password before the host where it shows an engine, and shows those behind the question mark
    secret = {name: url.normalized_query[name][-1] for name in _SECRET_IN_QUERY if name in url.query}
    options["connect_args"] |= secret
    url = url.difference_update_query(secret)
    try:
        engine = create_engine(url, **options)
    except ModuleNotFoundError as error:
        raise StoreError(f"store {redact_url(url)}: needs psycopg (pip install 'psycopg[binary]')") from error
    except (ArgumentError, TypeError, ValueError) as error:
        raise StoreError(f"store {redact_url(url)}: {_line(error)}") from error
    if url.get_backend_name() != "sqlite":
        event.listen(engine, "handle_error", _translate)
    return engine


def _sqlite_arguments(url: URL, wait_s: float) -> dict[str, float]:
    """Returns the driver's lock timeout (s), unless the URL sets one itself (`?timeout=1`)."""
    return {} if "timeout" in url.query else {"timeout": wait_s}


def _postgresql_arguments(url: URL, **more: str) -> dict[str, str | int]:
    """Returns libpq's settings, without those that the URL sets itself."""
    ours = _GONE_AFTER | {_SESSION_ATTRS: "read-write"} | more
    return {name: value for name, value in ours.items() if name not in url.query}


class _SqliteSessions:
    """Sets the pragmas of an engine's connections, and begins each transaction when SQLAlchemy does: Python's driver
    begins one late, when it takes a statement for a write. Every transaction begins with a look at the file."""

    def __init__(
        self, engine: Engine, pragmas: tuple[str, ...], begin: str, *, may_create: bool, keeps_file: bool
    ) -> None:
        """`may_create`: the first connection creates a missing file. `keeps_file`: no connection opens another file
        than the first one did."""
        self._name, self._file = redact_url(engine.url), store_file(engine.url.database or "")
        self._pragmas, self._begin_with = pragmas, begin
        self._may_create, self._keeps_file = may_create, keeps_file
        self._kept: FileSeen | None = None
        self._lost: str | None = None
        event.listen(engine, "do_connect", self._connect)
        event.listen(engine, "connect", self._prepare)
        if not keeps_file:
            event.listen(engine, "checkout", self._check_pooled)
        event.listen(engine, "begin", self._begin)
        event.listen(engine, "handle_error", self._translate)

    def _connect(self, dialect: Dialect, _: object, arguments: list[Any], more: dict[str, Any]) -> DBAPIConnection:
        may_create = self._may_create and self._kept is None
        if may_create:
            self._file.create()
        return dialect.connect(self._file.uri(may_create=may_create), *arguments[1:], **{**more, "uri": True})

    def _prepare(self, raw: sqlite3.Connection, record: ConnectionPoolEntry) -> None:
        seen = self._file.note_opened(record.info)
        if self._keeps_file and self._kept not in (None, seen):
            raw.close()
            raise StoreReplaced(f"store {self._name}: another file took the place of its file")
        raw.isolation_level = None
        try:
            for pragma in self._pragmas:
                raw.execute(f"PRAGMA {pragma}").close()
        except sqlite3.DatabaseError as error:
            raw.close()
            raise self._failure(error) or StoreError(f"store {self._name}: {_line(error)}") from error
        self._kept = seen

    def _check_pooled(self, _raw: object, record: ConnectionPoolEntry, _proxy: object) -> None:
        if self._file.change(record.info) is not None:
            raise DisconnectionError  # the pool connects again, to the file that is there now

    def _begin(self, connection: Connection) -> None:
        change = self._lost or self._file.change(connection.connection.info)
        if change is not None:
            connection.invalidate()
            if not self._keeps_file:
                raise StoreUnavailable(f"store {self._name}: {change}")
            self._lost = change
            raise StoreReplaced(f"store {self._name}: {change}")
        if (damage := self._file.damage()) is not None:
            raise StoreDamaged(damage)
        connection.exec_driver_sql(self._begin_with)

    def _translate(self, context: ExceptionContext) -> StoreError | None:
        error = context.original_exception
        return self._failure(error) if isinstance(error, sqlite3.Error) else None

    def _failure(self, error: sqlite3.Error) -> StoreError | None:
        """Returns the exception to raise instead of the driver's, or None to keep the driver's."""
        code = getattr(error, "sqlite_errorcode", None)
        if is_damaged(error):
            may_be_foreign = "if it was a store, " if code == sqlite3.SQLITE_NOTADB else ""
            text = f"store {self._name}: {_line(error)}; {may_be_foreign}{_SQLITE_REMEDY}"
            self._file.note_damage(text)
            return StoreDamaged(text)
        if code == sqlite3.SQLITE_CANTOPEN and not self._file.is_there():
            if self._keeps_file and self._kept is not None:
                return StoreReplaced(f"store {self._name}: its file was deleted")
            return StoreUnavailable(
                f"store {self._name}: there is no such file; `txnscope migrate` (or `txnscope watch`) creates it"
            )
        if code is not None and code & 0xFF in _PASSING:
            return StoreUnavailable(f"store {self._name}: {_line(error)}")
        return None


def _read_only(connection: Connection) -> None:
    connection.exec_driver_sql("SET TRANSACTION READ ONLY")


def _check_primary(connection: Connection) -> None:
    """Raises StoreUnavailable if the server became read-only. Servers from 14 on report that by themselves."""
    info = connection.connection.dbapi_connection.info  # type: ignore[union-attr]
    if "on" in map(info.parameter_status, ("default_transaction_read_only", "in_hot_standby")):
        url = redact_url(connection.engine.url)
        connection.invalidate()
        raise StoreUnavailable(f"store {url}: the server is read-only: a standby, or a primary that was demoted")


def _translate(context: ExceptionContext) -> StoreError | None:
    """Returns the exception to raise instead of PostgreSQL's or the pool's, or None to keep it.

    psycopg's OperationalError covers the classes 08, 40, 53, 55, 57 and 58, and all of these may pass.
    """
    if context.is_pre_ping:
        return None  # the pool connects again
    error, name = context.original_exception, context.dialect.name
    if getattr(error, "sqlstate", None) in _DAMAGED_STATES:
        return StoreDamaged(f"store ({name}): {_line(error)}; {POSTGRESQL_REMEDY}")
    is_down = context.is_disconnect or isinstance(context.sqlalchemy_exception, OperationalError | PoolTimeout)
    return StoreUnavailable(f"store ({name}): {_line(error)}") if is_down else None


def _translate_read_only(context: ExceptionContext) -> StoreUnavailable | None:
    """Returns the exception for a writer whose server has become read-only; its next connection may find another."""
    error = context.original_exception
    if getattr(error, "sqlstate", None) != _READ_ONLY_STATE:
        return None
    context.is_disconnect = True
    return StoreUnavailable(f"store ({context.dialect.name}): the server is read-only: {_line(error)}")


def _line(error: BaseException) -> str:
    """Returns the error's message in one line, without the statement that PostgreSQL repeats below it."""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    return " ".join((primary or str(error)).split()) or type(error).__name__

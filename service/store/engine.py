"""Opens the store's engines, with errors of one line each; hides passwords in its URL from people, logs and answers."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from service.store import many_rows

_CREDENTIALS: Final = re.compile(r"(?s)(^[^:/@]*:/*)?.*@")
"""Matches, in a text that no parser takes for a URL, everything after the scheme up to the last @."""
_IN_QUERY: Final = re.compile(r"(?i)(password=)[^&]*")  # libpq's password, sslpassword

_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
_BUSY_TIMEOUT_S = 5.0

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
_MAPPED = "mmap_size = 268435456"

# a host that died without closing its connections is noticed after some 20 s, not after libpq's two hours
_GONE_AFTER = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}

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


class ClusterMismatch(StoreError):
    """The cluster's name is bound to another Kafka cluster."""


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


def open_engine(url: str) -> Engine:
    """Returns the writer's engine. On SQLite every transaction takes the write lock at once; elsewhere rows are locked.

    StoreError: the URL is no store. StoreUnavailable is raised by whatever is executed while the store is locked, full
    or down.
    """
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        engine = _create(parsed, pool_size=1, max_overflow=0, connect_args=_sqlite_arguments(parsed))
        _prepare_sqlite(engine, _WRITER_PRAGMAS, "BEGIN IMMEDIATE")
    else:
        arguments = _postgresql_arguments(parsed, options=f"-c lock_timeout={_BUSY_TIMEOUT_S:.0f}s")
        engine = _create(parsed, pool_pre_ping=True, connect_args=arguments, paramstyle="format")
        many_rows.listen(engine)
    return engine


def open_reader(url: str, *, maps_file: bool = False) -> Engine:
    """Returns an engine that cannot write; one transaction sees one state of the store. Errors as `open_engine`.

    `maps_file`: maps SQLite's file into memory. Many small reads of a large store gain from it; a process that reads
    all of a table once would be as large as the file.
    """
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        engine = _create(parsed, connect_args=_sqlite_arguments(parsed))
        _prepare_sqlite(engine, (*_READER_PRAGMAS, _MAPPED) if maps_file else _READER_PRAGMAS, "BEGIN")
    else:
        # a generic plan (one for all values) expects every page to be a tenth of the table, and sorts rows that an
        # index has in order
        arguments = _postgresql_arguments(parsed, options="-c plan_cache_mode=force_custom_plan")
        engine = _create(parsed, pool_pre_ping=True, connect_args=arguments, isolation_level="REPEATABLE READ")
        event.listen(engine, "begin", _read_only)
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
    try:
        engine = create_engine(url, **options)
    except ModuleNotFoundError as error:
        raise StoreError(f"store {redact_url(url)}: needs psycopg (pip install 'psycopg[binary]')") from error
    except (ArgumentError, TypeError, ValueError) as error:
        raise StoreError(f"store {redact_url(url)}: {_line(error)}") from error
    event.listen(engine, "handle_error", _translate)
    return engine


def _sqlite_arguments(url: URL) -> dict[str, float]:
    """Returns the driver's lock timeout (s), unless the URL sets one itself (`?timeout=1`)."""
    return {} if "timeout" in url.query else {"timeout": _BUSY_TIMEOUT_S}


def _postgresql_arguments(url: URL, **more: str) -> dict[str, str | int]:
    """Returns libpq's settings, without those that the URL sets itself."""
    return {name: value for name, value in (_GONE_AFTER | more).items() if name not in url.query}


def _prepare_sqlite(engine: Engine, pragmas: tuple[str, ...], begin: str) -> None:
    """Sets the pragmas, and begins each transaction when SQLAlchemy does: Python's driver begins one late, when it
    takes a statement for a write."""
    name = redact_url(engine.url)

    def on_connect(raw: sqlite3.Connection, _: object) -> None:
        raw.isolation_level = None
        try:
            for pragma in pragmas:
                raw.execute(f"PRAGMA {pragma}").close()
        except sqlite3.DatabaseError as error:
            raw.close()
            kind = StoreUnavailable if _is_passing(error) else StoreError
            raise kind(f"store {name}: {_line(error)}") from error

    def on_begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    event.listen(engine, "connect", on_connect)
    event.listen(engine, "begin", on_begin)


def _read_only(connection: Connection) -> None:
    connection.exec_driver_sql("SET TRANSACTION READ ONLY")


def _translate(context: ExceptionContext) -> StoreUnavailable | None:
    """Returns the exception to raise instead of the driver's, or None to keep the driver's."""
    error = context.original_exception
    name = context.dialect.name
    passing = _is_passing(error) if isinstance(error, sqlite3.Error) else _is_down(context)
    return StoreUnavailable(f"store ({name}): {_line(error)}") if passing else None


def _is_passing(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _PASSING


def _is_down(context: ExceptionContext) -> bool:
    """Returns whether an error of PostgreSQL may pass. psycopg's OperationalError covers the classes 08, 40, 53, 55, 57
    and 58, and all of these may pass."""
    wrapped = context.sqlalchemy_exception
    return context.is_disconnect or isinstance(wrapped, OperationalError | PoolTimeout)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__

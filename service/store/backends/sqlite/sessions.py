"""Prepares sessions with SQLite: sets pragmas, sends BEGIN explicitly, checks the file at each BEGIN, and translates
errors."""

from __future__ import annotations

import sqlite3
from time import monotonic, sleep
from typing import Any, Final

from sqlalchemy import URL, Connection, Dialect, Engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

from service.store.backends.sqlite.file import FileSeen, is_damaged, store_file
from service.store.errors import StoreDamaged, StoreError, StoreReplaced, StoreUnavailable, in_one_line, redact_url

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

_RETRY_S: Final = 0.02

_REMEDY: Final = (
    "`txnscope migrate --rebuild` makes a new store: it keeps all readable data, and the transaction log is read again"
)

# primary result codes of SQLite for errors that may end by themselves or when disk space is freed; all others are
# errors of the program
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


def arguments(url: URL, *, wait_s: float) -> dict[str, float]:
    """Returns the driver's lock timeout (s) as a connect argument. Returns no argument if the URL sets the timeout
    (`?timeout=1`)."""
    return {} if "timeout" in url.query else {"timeout": wait_s}


class Sessions:
    """Sets the pragmas of an engine's connections, and sends BEGIN when SQLAlchemy begins a transaction: Python's
    driver itself would send it only before the first writing statement. Checks the file at each BEGIN.

    An engine that `writes` begins every transaction with the write lock, and accepts only the file that its first
    connection opened. An engine that does not write is read-only, and opens whatever file is at the path. `may_create`:
    the first connection creates a missing file.
    """

    def __init__(self, engine: Engine, *, writes: bool, may_create: bool) -> None:
        self._name, self._file = redact_url(engine.url), store_file(engine.url.database or "")
        self._pragmas = _WRITER_PRAGMAS if writes else _READER_PRAGMAS
        self._begin_with = "BEGIN IMMEDIATE" if writes else "BEGIN"
        self._may_create, self._keeps_file = may_create, writes
        self._kept: FileSeen | None = None
        self._lost: str | None = None
        event.listen(engine, "do_connect", self._connect)
        event.listen(engine, "connect", self._prepare)
        if not writes:
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
            raise StoreReplaced(f"store {self._name}: its file was replaced by another one")
        raw.isolation_level = None
        try:
            for pragma in self._pragmas:
                _set(raw, pragma)
        except sqlite3.DatabaseError as error:
            raw.close()
            raise self._failure(error) or StoreError(f"store {self._name}: {in_one_line(error)}") from error
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
            text = f"store {self._name}: {in_one_line(error)}; {may_be_foreign}{_REMEDY}"
            self._file.note_damage(text)
            return StoreDamaged(text)
        if code == sqlite3.SQLITE_CANTOPEN and not self._file.is_there():
            if self._keeps_file and self._kept is not None:
                return StoreReplaced(f"store {self._name}: its file was deleted")
            return StoreUnavailable(
                f"store {self._name}: there is no such file; the application (`txnscope ingest` or"
                " `txnscope watch`) creates it when it starts; to create it by hand, run `txnscope migrate`"
            )
        if code is not None and code & 0xFF in _PASSING:
            return StoreUnavailable(f"store {self._name}: {in_one_line(error)}")
        return None


def _set(raw: sqlite3.Connection, pragma: str) -> None:
    """Sets a pragma, and waits for a lock as long as the connection waits for any lock. SQLite itself does not wait
    when it changes the journal mode of a new file, and several processes that start at the same time may all change
    this mode."""
    (timeout_ms,) = raw.execute("PRAGMA busy_timeout").fetchone()
    until = monotonic() + timeout_ms / 1000
    while True:
        try:
            raw.execute(f"PRAGMA {pragma}").close()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or monotonic() >= until:
                raise
            sleep(_RETRY_S)
        else:
            return

"""Prepares sessions with PostgreSQL: sets timeouts, refuses read-only servers, and translates errors to one line."""

from __future__ import annotations

from typing import Final

from sqlalchemy import URL, Connection, Engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from service.store.errors import StoreDamaged, StoreError, StoreUnavailable, in_one_line, redact_url

REMEDY: Final = "restore a backup of the database, or give --store a new one: the transaction log is read again"
"""The advice for a database with damaged pages."""

_LONGEST_READ_S: Final = 30.0
"""Timeout (s) of a reader's statement. Each statement reads a bounded number of rows."""

# a host that died without closing its connections is noticed after some 20 s, not after libpq's two hours
_GONE_AFTER: Final[dict[str, str | int]] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}

_SESSION_ATTRS: Final = "target_session_attrs"

_READ_ONLY_STATE: Final = "25006"
_DAMAGED_STATES: Final = frozenset({"XX001", "XX002"})


def writer_arguments(url: URL, *, wait_s: float) -> dict[str, str | int]:
    """Returns libpq's settings for a session that waits at most `wait_s` for a lock. Leaves out settings that the URL
    sets."""
    return _arguments(url, f"-c lock_timeout={wait_s:.0f}s")


def reader_arguments(url: URL, *, wait_s: float) -> dict[str, str | int]:
    """Returns libpq's settings for a session that reads: as `writer_arguments`, and with a timeout of _LONGEST_READ_S
    for each statement."""
    # for a generic plan (one for all values) PostgreSQL estimates a page of rows at a tenth of the table, and sorts
    # rows that an index has in order
    limits = f"-c statement_timeout={_LONGEST_READ_S:.0f}s -c lock_timeout={wait_s:.0f}s"
    return _arguments(url, f"-c plan_cache_mode=force_custom_plan {limits}")


def prepare_writer(engine: Engine) -> None:
    """Translates the engine's errors. If the server has become read-only, the engine connects again, perhaps to another
    server."""
    event.listen(engine, "handle_error", _translate)
    event.listen(engine, "handle_error", _translate_read_only)


def prepare_reader(engine: Engine) -> None:
    """Makes the engine read-only and translates its errors. The engine refuses read-only servers unless its URL sets
    `target_session_attrs`, because a demoted primary is not updated any more."""
    event.listen(engine, "handle_error", _translate)
    event.listen(engine, "begin", _read_only)
    if _SESSION_ATTRS not in engine.url.query:
        event.listen(engine, "begin", _check_primary)


def _arguments(url: URL, options: str) -> dict[str, str | int]:
    ours = _GONE_AFTER | {_SESSION_ATTRS: "read-write", "options": options}
    return {name: value for name, value in ours.items() if name not in url.query}


def _read_only(connection: Connection) -> None:
    connection.exec_driver_sql("SET TRANSACTION READ ONLY")


def _check_primary(connection: Connection) -> None:
    """Raises StoreUnavailable if the server became read-only. Servers from PostgreSQL 14 on report this to the
    client."""
    info = connection.connection.dbapi_connection.info  # type: ignore[union-attr]
    if "on" in map(info.parameter_status, ("default_transaction_read_only", "in_hot_standby")):
        url = redact_url(connection.engine.url)
        connection.invalidate()
        raise StoreUnavailable(f"store {url}: the server is read-only: a standby, or a primary that was demoted")


def _translate(context: ExceptionContext) -> StoreError | None:
    """Returns the exception to raise instead of the exception of PostgreSQL or of the connection pool. Returns None to
    keep the original exception.

    psycopg's OperationalError covers the SQLSTATE classes 08, 40, 53, 55, 57 and 58, whose errors are all temporary. It
    also covers classes whose errors are not, such as 28 (wrong credentials).
    """
    if context.is_pre_ping:
        return None  # the pool connects again
    error, name = context.original_exception, context.dialect.name
    if getattr(error, "sqlstate", None) in _DAMAGED_STATES:
        return StoreDamaged(f"store ({name}): {_message(error)}; {REMEDY}")
    is_down = context.is_disconnect or isinstance(context.sqlalchemy_exception, OperationalError | PoolTimeout)
    return StoreUnavailable(f"store ({name}): {_message(error)}") if is_down else None


def _translate_read_only(context: ExceptionContext) -> StoreUnavailable | None:
    """Returns the exception for a writer whose server has become read-only, and makes the pool connect again, perhaps
    to another server. Returns None for any other error."""
    error = context.original_exception
    if getattr(error, "sqlstate", None) != _READ_ONLY_STATE:
        return None
    context.is_disconnect = True
    return StoreUnavailable(f"store ({context.dialect.name}): the server is read-only: {_message(error)}")


def _message(error: BaseException) -> str:
    """Returns the error's message in one line, without the statement that PostgreSQL repeats below it."""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    return " ".join(primary.split()) if primary else in_one_line(error)

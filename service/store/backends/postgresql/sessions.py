"""PostgreSQL's sessions: limits, servers that only read, and one line for each error."""

from __future__ import annotations

from typing import Final

from sqlalchemy import URL, Connection, Engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from service.store.errors import StoreDamaged, StoreError, StoreUnavailable, in_one_line, redact_url

REMEDY: Final = "restore a backup of the database, or give --store a new one: the transaction log is read again"
"""The advice where pages of the database are damaged."""

_LONGEST_READ_S: Final = 30.0
"""Time after which PostgreSQL ends a statement of a reader: each reads a bounded number of rows."""

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
    """Returns libpq's settings for a session that waits so long (s) for a lock, without those that the URL sets."""
    return _arguments(url, options=f"-c lock_timeout={wait_s:.0f}s")


def reader_arguments(url: URL, *, wait_s: float) -> dict[str, str | int]:
    """Returns libpq's settings for a session that reads: as `writer_arguments`, and its statements are bounded."""
    # a generic plan (one for all values) expects every page to be a tenth of the table, and sorts rows that an index
    # has in order
    limits = f"-c statement_timeout={_LONGEST_READ_S:.0f}s -c lock_timeout={wait_s:.0f}s"
    return _arguments(url, options=f"-c plan_cache_mode=force_custom_plan {limits}")


def prepare_writer(engine: Engine) -> None:
    """Leaves a server that has become read-only for another."""
    event.listen(engine, "handle_error", _translate)
    event.listen(engine, "handle_error", _translate_read_only)


def prepare_reader(engine: Engine) -> None:
    """Keeps the engine from writing, and from servers that are read-only, unless its URL says which servers it wants: a
    primary that was demoted shows a past that nobody brings up to date."""
    event.listen(engine, "handle_error", _translate)
    event.listen(engine, "begin", _read_only)
    if _SESSION_ATTRS not in engine.url.query:
        event.listen(engine, "begin", _check_primary)


def _arguments(url: URL, **more: str) -> dict[str, str | int]:
    ours = _GONE_AFTER | {_SESSION_ATTRS: "read-write"} | more
    return {name: value for name, value in ours.items() if name not in url.query}


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
        return StoreDamaged(f"store ({name}): {_message(error)}; {REMEDY}")
    is_down = context.is_disconnect or isinstance(context.sqlalchemy_exception, OperationalError | PoolTimeout)
    return StoreUnavailable(f"store ({name}): {_message(error)}") if is_down else None


def _translate_read_only(context: ExceptionContext) -> StoreUnavailable | None:
    """Returns the exception for a writer whose server has become read-only; its next connection may find another."""
    error = context.original_exception
    if getattr(error, "sqlstate", None) != _READ_ONLY_STATE:
        return None
    context.is_disconnect = True
    return StoreUnavailable(f"store ({context.dialect.name}): the server is read-only: {_message(error)}")


def _message(error: BaseException) -> str:
    """Returns the error's message in one line, without the statement that PostgreSQL repeats below it."""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    return " ".join(primary.split()) if primary else in_one_line(error)

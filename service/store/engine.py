"""Opens the store's engines: those that write, and those that only read."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import URL, Engine, create_engine
from sqlalchemy.exc import ArgumentError

from service.store.backends import postgresql, sqlite
from service.store.errors import StoreError, in_one_line
from service.store.url import SECRETS, parse_store_url, redact_url

API_WAIT_S: Final = 30.0
"""Time that a request that writes waits for a lock before it is answered with 503."""

_LOCK_WAIT_S: Final = 5.0


def open_engine(url: str, *, must_exist: bool = False, wait_s: float = _LOCK_WAIT_S) -> Engine:
    """Returns the writer's engine. On SQLite every transaction takes the write lock at once; elsewhere rows are locked.

    A SQLite file that is missing is created by the first connection, unless it `must_exist`. From then on the engine
    keeps to that file: StoreReplaced is raised once it was deleted or replaced. `wait_s`: time to wait for a lock.

    StoreError: the URL is no store. Whatever is executed raises StoreUnavailable while the store is locked, full,
    read-only or down, and StoreDamaged.
    """
    parsed = parse_store_url(url)
    if parsed.get_backend_name() == "sqlite":
        engine = _create(parsed, pool_size=1, max_overflow=0, connect_args=sqlite.arguments(parsed, wait_s=wait_s))
        sqlite.prepare_writer(engine, may_create=not must_exist)
    else:
        arguments = postgresql.writer_arguments(parsed, wait_s=wait_s)
        engine = _create(parsed, pool_pre_ping=True, connect_args=arguments, paramstyle="format")
        postgresql.prepare_writer(engine)
    return engine


def open_reader(url: str) -> Engine:
    """Returns an engine that cannot write; one transaction sees one state of the store. Errors as `open_engine`, but no
    StoreReplaced: it opens the new file. It never creates one.

    On PostgreSQL it reads only from a server that can be written, unless the URL sets target_session_attrs.
    """
    parsed = parse_store_url(url)
    if parsed.get_backend_name() == "sqlite":
        engine = _create(parsed, connect_args=sqlite.arguments(parsed, wait_s=_LOCK_WAIT_S))
        sqlite.prepare_reader(engine)
    else:
        arguments = postgresql.reader_arguments(parsed, wait_s=_LOCK_WAIT_S)
        engine = _create(parsed, pool_pre_ping=True, connect_args=arguments, isolation_level="REPEATABLE READ")
        postgresql.prepare_reader(engine)
    return engine


def _create(url: URL, **options: Any) -> Engine:
    # SQLAlchemy hides the password before the host where it shows an engine, and shows those behind the question mark
    secret = {name: url.normalized_query[name][-1] for name in SECRETS if name in url.query}
    options["connect_args"] |= secret
    url = url.difference_update_query(secret)
    try:
        return create_engine(url, **options)
    except ModuleNotFoundError as error:
        raise StoreError(f"store {redact_url(url)}: needs psycopg (pip install 'psycopg[binary]')") from error
    except (ArgumentError, TypeError, ValueError) as error:
        raise StoreError(f"store {redact_url(url)}: {in_one_line(error)}") from error

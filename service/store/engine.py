"""Opens the store's engines for writing and for reading, and reads the version of the store's data."""

from __future__ import annotations

import threading
from typing import Final

from sqlalchemy import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from service.store.backends import DEFAULT_URL, URL_FORMS, backend_of, backends
from service.store.backends.backend import Backend
from service.store.errors import StoreError, redact_text, redact_url

API_WAIT_S: Final = 30.0
"""Longest time (s) that a writing HTTP request waits for a lock. After that, the answer is 503."""

_LOCK_WAIT_S: Final = 5.0


def open_engine(url: str, *, must_exist: bool = False, wait_s: float = _LOCK_WAIT_S) -> Engine:
    """Returns an engine for writing. In a file, each transaction begins with the write lock of the whole store; on a
    server, a transaction locks rows. `wait_s`: longest wait for a lock.

    The first connection creates a missing file, unless `must_exist`. If the file is deleted or replaced later, the
    engine raises StoreReplaced.

    Raises StoreError if the URL names no store. Statements raise StoreUnavailable while the store is locked, full,
    read-only or down, and StoreDamaged if its pages are damaged.
    """
    backend, parsed = resolve(url)
    return backend.open_writer(parsed, may_create=not must_exist, wait_s=wait_s)


def open_reader(url: str) -> Engine:
    """Returns an engine that cannot write; one transaction sees one state of the store. Never creates a file. If the
    file is replaced, the engine opens the new file. The engine uses only a server that accepts writes, unless the URL
    sets `target_session_attrs`. Raises the errors of `open_engine`, except StoreReplaced."""
    backend, parsed = resolve(url)
    return backend.open_reader(parsed, wait_s=_LOCK_WAIT_S)


def resolve(url: str) -> tuple[Backend, URL]:
    """Returns the backend that the URL names, and the URL completed with the database driver. Raises StoreError if the
    URL names no store, or if the directory of the store's file does not exist."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise StoreError(f"store {redact_text(url)!r}: not a URL like {DEFAULT_URL}") from error
    backend = backends().get(parsed.get_backend_name())
    found = None if backend is None else backend.resolve(parsed)
    if backend is None or found is None:
        raise StoreError(f"store {redact_url(parsed)}: neither {' nor '.join(URL_FORMS.values())}")
    return backend, found


_TURN_S: Final = 0.2
"""Longest wait (s) for another thread that is reading the version. Without this limit, a database host that drops
packets would hold up the threads one after another."""


DataVersion = tuple[int, str]
"""The number of a connection to the store, and the version that the store reported over this connection. If one
`DataVersions` returns equal values twice, the data did not change in between."""


class DataVersions:
    """Reads the data version of the store behind `engine` over one connection that stays open. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._query = backend_of(engine).data_version
        self._turn = threading.Lock()
        self._connection: Connection | None = None
        self._connected = 0

    def current(self) -> DataVersion | None:
        """Returns the version; None if the store does not answer, or if another thread waits for its answer for more
        than _TURN_S."""
        if not self._turn.acquire(timeout=_TURN_S):
            return None
        try:
            if self._connection is None:
                self._connection, self._connected = self._engine.connect(), self._connected + 1
            with self._connection.begin():
                version = self._connection.exec_driver_sql(self._query).scalar_one()
            return self._connected, str(version)
        except (SQLAlchemyError, StoreError):
            self._drop()
            return None
        finally:
            self._turn.release()

    def close(self) -> None:
        with self._turn:
            self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
        self._connection = None

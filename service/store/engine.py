"""Opens the store's engines: those that write, and those that only read. Tells readers whether the data has changed."""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

from sqlalchemy import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from service.store.backends import DEFAULT_URL, URL_FORMS, backend_of, backends
from service.store.backends.backend import Backend
from service.store.errors import StoreError, redact_text, redact_url

API_WAIT_S: Final = 30.0
"""Time that a request that writes waits for a lock before it is answered with 503."""

_LOCK_WAIT_S: Final = 5.0


def open_engine(url: str, *, must_exist: bool = False, wait_s: float = _LOCK_WAIT_S) -> Engine:
    """Returns the writer's engine. A transaction takes the write lock of the whole store at once, or locks rows.

    A file that is missing is created by the first connection, unless it `must_exist`. From then on the engine keeps to
    that file: StoreReplaced is raised once it was deleted or replaced. `wait_s`: time to wait for a lock.

    StoreError: the URL is no store. Whatever is executed raises StoreUnavailable while the store is locked, full,
    read-only or down, and StoreDamaged.
    """
    backend, parsed = resolve(url)
    return backend.open_writer(parsed, may_create=not must_exist, wait_s=wait_s)


def open_reader(url: str) -> Engine:
    """Returns an engine that cannot write; one transaction sees one state of the store. Errors as `open_engine`, but no
    StoreReplaced: it opens the new file. It never creates one.

    It reads only from a server that can be written, unless the URL says otherwise.
    """
    backend, parsed = resolve(url)
    return backend.open_reader(parsed, wait_s=_LOCK_WAIT_S)


def resolve(url: str) -> tuple[Backend, URL]:
    """Returns the database that the URL names, and the URL with its driver. StoreError: it names no store, or the
    folder of its file is not there."""
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
"""Longest wait for the others who ask: a host that drops packets must not hold up everybody in turn."""


class DataVersion(NamedTuple):
    """A version of the store, comparable with others of the same reader."""

    connection: int
    version: str


class DataVersions:
    """Reads the version of the store behind `engine`, over one connection that it keeps. Safe to share by threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._query = backend_of(engine).data_version
        self._turn = threading.Lock()
        self._connection: Connection | None = None
        self._connected = 0

    def current(self) -> DataVersion | None:
        """Returns the version; None if the store does not answer, or if others have waited long for its answer."""
        if not self._turn.acquire(timeout=_TURN_S):
            return None
        try:
            if self._connection is None:
                self._connection, self._connected = self._engine.connect(), self._connected + 1
            with self._connection.begin():
                version = self._connection.exec_driver_sql(self._query).scalar_one()
            return DataVersion(self._connected, str(version))
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

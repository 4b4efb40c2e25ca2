"""The service's access to the store: reads snapshots, and refuses a schema that is not the one this version reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import Request
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import TimeoutError as PoolTimeout

from service.store import migrate
from service.store.engine import StoreError, StoreUnavailable, redact_url
from service.store.queries import clusters as read


class Store:
    """Reads through one engine for the whole process. The store behind the engine need not exist yet."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._head: str | None = None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yields a connection whose transaction sees one state of the store.

        StoreError: the store does not answer, or its schema is not at head.
        """
        try:
            with self._engine.connect() as connection:
                self._check(connection)
                yield connection
        except PoolTimeout as error:
            raise StoreUnavailable("store: too many requests are reading it at once") from error

    def check(self) -> None:
        """Raises the errors of `read`."""
        with self.read():
            pass

    def _check(self, connection: Connection) -> None:
        """Raises StoreError unless the schema is at head.

        Checked with every read: the store may be created, or migrated by a newer version, while this process runs.
        """
        if self._head is not None and read.revision(connection) == self._head:
            return
        revision = migrate.current(connection)
        if revision != migrate.head():
            has = "has no tables yet" if revision is None else f"has the tables of revision {revision}"
            raise StoreError(
                f"store {redact_url(self._engine.url)} {has};"
                " `txnscope migrate` (or `txnscope watch`) migrates it for this version"
            )
        self._head = revision


def store_of(request: Request) -> Store:
    """Returns the store of the application that answers the request."""
    store = request.app.state.store
    assert isinstance(store, Store)
    return store

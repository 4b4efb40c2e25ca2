"""The service's way to the store: read in snapshots, refused while it is not what this version reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import Request
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import TimeoutError as PoolTimeout

from service.store import migrate
from service.store.engine import shown
from service.store.errors import StoreError, StoreUnavailable
from service.store.queries import clusters as read


class Store:
    """Reads through one engine for the whole process. The engine may be of a store that is not there (yet)."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._head: str | None = None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the store. StoreError: it does not answer, or is not at head."""
        try:
            with self._engine.connect() as connection:
                self._check(connection)
                yield connection
        except PoolTimeout as error:
            raise StoreUnavailable("store: too many requests are reading it at once") from error

    def check(self) -> None:
        """Raises as `read`."""
        with self.read():
            pass

    def _check(self, connection: Connection) -> None:
        """The store may be created, or migrated by a newer version, while this process runs."""
        if self._head is not None and read.revision(connection) == self._head:
            return
        revision = migrate.current(connection)
        if revision != migrate.head():
            has = "has no tables yet" if revision is None else f"has the tables of revision {revision}"
            raise StoreError(
                f"store {shown(self._engine.url)} {has};"
                " `txnscope migrate` (or `txnscope watch`) brings it to what this version reads"
            )
        self._head = revision


def store_of(request: Request) -> Store:
    """The store of the application that answers the request."""
    store = request.app.state.store
    assert isinstance(store, Store)
    return store

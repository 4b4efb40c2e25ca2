"""The service's access to the store: reads snapshots, and refuses a schema that is not the one this version reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import Request
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import TimeoutError as PoolTimeout

from service.store.errors import StoreUnavailable
from service.store.schema_check import SchemaCheck


class Store:
    """Reads through one engine for the whole process. The store behind the engine need not exist yet."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._schema = SchemaCheck(engine)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yields a connection whose transaction sees one state of the store.

        StoreError: the store does not answer, or its schema is not at head.
        """
        try:
            with self._engine.connect() as connection:
                self._schema.check(connection)
                yield connection
        except PoolTimeout as error:
            raise StoreUnavailable("store: too many requests are reading it at once") from error

    def check(self) -> None:
        """Raises the errors of `read`."""
        with self.read():
            pass


def store_of(request: Request) -> Store:
    """Returns the store of the application that answers the request."""
    store = request.app.state.store
    assert isinstance(store, Store)
    return store

"""Checks that a store's schema is the one that this version reads."""

from __future__ import annotations

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from service.store import migrate
from service.store.errors import StoreError, redact_url
from service.store.queries import clusters as read


class SchemaCheck:
    """Checks the schema of one engine's store. Call `check` with every read: another process may create, replace or
    migrate the store at any time."""

    def __init__(self, engine: Engine) -> None:
        self._name = redact_url(engine.url)
        self._head: str | None = None

    def check(self, connection: Connection) -> None:
        """Raises StoreError unless the schema is at head."""
        if self._head is not None and self._is_still_at_head(connection):
            return
        self._head = None
        revision = migrate.current(connection)
        if revision != migrate.head():
            raise StoreError(self._text(revision))
        self._head = revision

    def _is_still_at_head(self, connection: Connection) -> bool:
        try:
            return read.revision(connection) == self._head
        except DBAPIError as error:  # another store, without the table of the revision, took the place of this one
            raise StoreError(self._text(None)) from error

    def _text(self, revision: str | None) -> str:
        if revision is not None and not migrate.is_known(revision):
            return migrate.unknown_text(self._name, revision)
        has = "has no tables yet" if revision is None else f"has the tables of revision {revision}"
        return f"store {self._name} {has}; `txnscope migrate` (or `txnscope watch`) migrates it for this version"

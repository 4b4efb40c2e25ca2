"""Checks that a store's schema is the one that this version reads."""

from __future__ import annotations

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from service.store import migrate
from service.store.errors import StoreError, StoreNotMigrated, redact_url
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
            raise self._error(revision)
        self._head = revision

    def _is_still_at_head(self, connection: Connection) -> bool:
        try:
            return read.revision(connection) == self._head
        except DBAPIError as error:  # another store, without the table of the revision, took the place of this one
            raise self._error(None) from error

    def _error(self, revision: str | None) -> StoreError:
        if revision is not None and not migrate.is_known(revision):
            return StoreError(migrate.unknown_text(self._name, revision))
        has, does = "has no tables yet", "creates them"
        if revision is not None:
            has, does = f"has the tables of revision {revision}", "migrates them"
        return StoreNotMigrated(
            f"store {self._name} {has}; the application (`txnscope ingest` or `txnscope watch`) {does} when it starts,"
            " or `txnscope migrate` does by hand"
        )

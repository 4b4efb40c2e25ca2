"""Checks that this version can read and write a store's schema."""

from __future__ import annotations

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from service.store import migrate
from service.store.errors import StoreNotMigrated, redact_url
from service.store.queries import clusters as read


class SchemaCheck:
    """Checks the schema of one engine's store. Call `check` with every read: another process may create, replace or
    migrate the store at any time."""

    def __init__(self, engine: Engine) -> None:
        self._name = redact_url(engine.url)
        self._accepted: str | None = None

    @property
    def newer(self) -> str | None:
        """Returns a sentence if the last check found that a newer version of txnscope has added to the store; else
        None."""
        accepted = self._accepted
        return None if accepted is None or accepted == migrate.head() else migrate.newer_text(accepted)

    def check(self, connection: Connection) -> None:
        """Raises StoreNotMigrated if the schema has not been migrated to this version yet, StoreTooNew if this version
        cannot use the schema any more, StoreError if the store is from before the first release, or of an unreleased
        version."""
        if self._accepted is not None and self._is_unchanged(connection):
            return
        self._accepted = None
        revision = migrate.current(connection)
        if revision != migrate.head():
            if revision is None or migrate.is_known(revision):
                raise self._not_migrated(revision)
            migrate.require_readable(connection, revision)
        else:
            migrate.require_columns(connection)
        self._accepted = revision

    def _is_unchanged(self, connection: Connection) -> bool:
        try:
            return read.revision(connection) == self._accepted
        except DBAPIError as error:  # another store, without the table of the revision, took the place of this one
            raise self._not_migrated(None) from error

    def _not_migrated(self, revision: str | None) -> StoreNotMigrated:
        has, does = "has no tables yet", "create"
        if revision is not None:
            has, does = f"has the tables of revision {revision}", "migrate"
        return StoreNotMigrated(
            f"store {self._name} {has}; the application (`txnscope ingest` or `txnscope watch`) {does}s them when it"
            f" starts; to {does} them by hand, run `txnscope migrate`"
        )

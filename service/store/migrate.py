"""Migrates the store's tables to the newest revision (scripts in `migrations`), and rebuilds a damaged store."""

from __future__ import annotations

import logging
import re
from functools import cache
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect

from service.store.backends import backend_of
from service.store.backends.backend import Lock, Rebuilt
from service.store.engine import resolve
from service.store.errors import StoreError, StoreTooNew, redact_url

log = logging.getLogger("txnscope.store")

_SCRIPTS = Path(__file__).parent / "migrations"
_OF_DEVELOPMENT: Final = re.compile(r"00\d\d")
"""Matches the revisions of stores from before the first release; the first release has revision r0001."""

_MAKE_ANEW: Final = (
    "move it away, or give --store a new one. A new store fills itself from Kafka; keys, audit, history and counts stay"
    " in the old one"
)

_END_LEASES: Final = "UPDATE leases SET epoch = epoch + 1, released = TRUE"


def upgrade(engine: Engine) -> None:
    """Applies the missing revisions in one transaction. A second process waits for the first and finds nothing to do.
    A newer store that this version can use stays as it is.

    If the version of txnscope for the previous revision cannot use the new tables, ends every lease: a running program
    of that version then stops writing, and gets StoreTooNew when it takes a lease again.

    Raises StoreTooNew if this version cannot use the newer store. Raises StoreError if the store is from before the
    first release or of an unreleased version, or if the database's encoding is not UTF-8.
    """
    with engine.begin() as connection:
        backend = backend_of(connection)
        backend.check_texts(connection)
        backend.lock(connection, Lock.MIGRATE)
        revision = current(connection)
        if revision is not None and not is_known(revision):
            require_readable(connection, revision)
            return
        if revision == head():
            require_columns(connection)
        else:
            if tables := _own_tables(connection):
                backend.exclude_others(connection, tables)
            backend.drop_text_index(connection)
        command.upgrade(config(connection), "head")
        if revision is not None and not _goes_on_with(connection, revision):
            connection.exec_driver_sql(_END_LEASES)


def rebuild(url: str, now_ms: int) -> Rebuilt:
    """Rebuilds the damaged file of a store from its readable rows, and keeps the old file. The job then reads the
    transaction log again from its start.

    A running service that reads the store opens the new file; a running job that writes to the store has to start
    again.

    Raises StoreError if the store is not a file, this version does not know its revision, or another process created a
    new file meanwhile. Raises StoreUnavailable if the file does not exist, the disk has no space for a second file, or
    another process holds the store's lock.
    """
    backend, parsed = resolve(url)
    return backend.rebuild(parsed, now_ms)


@cache
def head() -> str | None:
    """Returns the revision that this version of the code was written for."""
    return ScriptDirectory(str(_SCRIPTS)).get_current_head()


def current(connection: Connection) -> str | None:
    """Returns the revision of the store, None if the store has no tables yet. A read-only connection is enough."""
    return MigrationContext.configure(connection).get_current_revision()


@cache
def is_known(revision: str) -> bool:
    """Returns whether this version of the code knows the revision. Revisions of newer versions are not known."""
    return any(script.revision == revision for script in ScriptDirectory(str(_SCRIPTS)).walk_revisions())


def readable_since(connection: Connection) -> str | None:
    """Returns the revision that a version of txnscope must know to read and write the store; None if the store has no
    such entry."""
    if not inspect(connection).has_table("readable_since"):
        return None
    return connection.exec_driver_sql("SELECT revision FROM readable_since").scalar_one_or_none()


def readable_since_of(revision: str) -> str:
    """Returns the revision that a version of txnscope must know to use the tables of `revision`, as declared in the
    migration script of `revision`."""
    script = ScriptDirectory(str(_SCRIPTS)).get_revision(revision)
    assert script is not None
    since: str = script.module.readable_since
    return since


def require_readable(connection: Connection, revision: str) -> None:
    """Checks that this version can use a store with the unknown revision `revision`, and logs once in each process that
    a newer version has changed the store.

    Raises StoreTooNew if this version cannot use the store; StoreError if the store is from before the first release.
    """
    name, since = redact_url(connection.engine.url), readable_since(connection)
    if since is None or not is_known(since):
        error = StoreError if _OF_DEVELOPMENT.fullmatch(revision) else StoreTooNew
        raise error(unknown_text(name, revision))
    _log_once(f"store {name}: {newer_text(revision)}")


def require_columns(connection: Connection) -> None:
    """Checks that a store of the newest revision has the tables of this version. An unreleased version may have other
    tables under the same revision. Raises StoreError, which names the first difference."""
    from service.store.schema import metadata  # imported here, because its types come from the backends

    stored = inspect(connection).get_multi_columns(filter_names=list(metadata.tables))
    for name, table in sorted(metadata.tables.items()):
        columns = {one["name"]: one for one in stored.get((None, name), ())}
        missing = [f"{name}.{column.name} is missing" for column in table.columns if column.name not in columns]
        unknown = [
            f"{name}.{column['name']} is not known"
            for column in columns.values()
            if column["name"] not in table.columns and not column["nullable"] and column["default"] is None
        ]
        if different := missing + unknown:
            raise StoreError(
                f"store {redact_url(connection.engine.url)} has the tables of an unreleased version of txnscope"
                f" ({different[0]}), and this version cannot use it; {_MAKE_ANEW}"
            )


def newer_text(revision: str) -> str:
    """Returns the sentence about a store that is newer than this version, and that this version can use."""
    return (
        f"a newer version of txnscope has added to the store (revision {revision}; this version knows {head()}): this"
        " version continues to use the store, and leaves out what only the newer version knows"
    )


@cache
def _log_once(text: str) -> None:
    log.warning("%s", text)


def _own_tables(connection: Connection) -> list[str]:
    """Returns the tables of the store that exist already. The database may have tables of other applications."""
    from service.store.schema import metadata  # imported here, because its types come from the backends

    return sorted(metadata.tables.keys() & set(inspect(connection).get_table_names()))


def _goes_on_with(connection: Connection, revision: str) -> bool:
    """Returns whether the version of txnscope whose newest revision is `revision` can use the store."""
    since = readable_since(connection)
    scripts = ScriptDirectory(str(_SCRIPTS))
    return any(script.revision == since for script in scripts.iterate_revisions(revision, "base"))


def unknown_text(name: str, revision: str) -> str:
    """Returns the error message for a store whose revision is not known. `name`: the store's URL, redacted."""
    has = f"store {name} has the tables of revision {revision}"
    if _OF_DEVELOPMENT.fullmatch(revision):
        return f"{has}: it is from before the first release, and this version cannot read it; {_MAKE_ANEW}"
    return f"{has}: it is newer than this version of txnscope; update txnscope, or choose another --store"


def config(connection: Connection) -> Config:
    """Returns Alembic's settings, made without a file: the folder of the scripts, and the connection on which they
    run."""
    settings = Config()
    settings.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    settings.attributes["connection"] = connection
    return settings

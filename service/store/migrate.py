"""Brings the store's tables to the newest revision; the scripts ship beside this file."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine

from service.store import trigram_index
from service.store.errors import StoreError
from service.store.url import redact_url

_SCRIPTS = Path(__file__).parent / "migrations"
_UPGRADE_LOCK = 7489071206341  # any number, but the same for every process that upgrades


def upgrade(engine: Engine) -> None:
    """Applies the missing revisions in one transaction; a second process waits for the first and finds nothing to do.

    StoreError: the store is newer than this version, or the database cannot hold every text, because its encoding is
    not UTF8.
    """
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            _check_encoding(connection)
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_UPGRADE_LOCK})")
        revision = current(connection)
        if revision is not None and not is_known(revision):
            raise StoreError(newer_text(redact_url(connection.engine.url), revision))
        if revision != head():
            trigram_index.drop(connection)
        command.upgrade(config(connection), "head")


def _check_encoding(connection: Connection) -> None:
    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
    if encoding != "UTF8":
        raise StoreError(
            f"store {redact_url(connection.engine.url)}: the database's encoding is {encoding}"
            " and has to be UTF8: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )


@cache
def head() -> str | None:
    """Returns the revision that this version of the code was written for."""
    return ScriptDirectory(str(_SCRIPTS)).get_current_head()


def current(connection: Connection) -> str | None:
    """Returns the revision of a store, None where there is none yet; a read-only connection is enough."""
    return MigrationContext.configure(connection).get_current_revision()


@cache
def is_known(revision: str) -> bool:
    """Returns whether this version of the code has the revision; those of a newer version it does not have."""
    return any(one.revision == revision for one in ScriptDirectory(str(_SCRIPTS)).walk_revisions())


def newer_text(name: str, revision: str) -> str:
    """Returns the error of a store whose revision is not known. `name`: its URL, redacted."""
    return (
        f"store {name} has the tables of revision {revision}: it is newer than this version of"
        " txnscope; update txnscope, or choose another --store"
    )


def config(connection: Connection) -> Config:
    """Returns Alembic's settings without a file: the place of the scripts, and the connection they run on."""
    settings = Config()
    settings.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    settings.attributes["connection"] = connection
    return settings

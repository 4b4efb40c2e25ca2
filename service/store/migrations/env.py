"""Alembic runs this module for every command: the connection comes from `service.store.migrate.config`."""

from __future__ import annotations

from typing import Any

from alembic import context
from alembic.runtime.migration import MigrationContext, MigrationInfo
from sqlalchemy import delete, insert

from service.store.migrate import readable_since_of
from service.store.schema import metadata, readable_since


def note_readable_since(ctx: MigrationContext, step: MigrationInfo, heads: Any, run_args: Any) -> None:  # noqa: ARG001 - Alembic's names
    """Stores the revision that a version of txnscope must know to use the tables as they are after this migration step.
    Alembic calls the function after each step, in the same transaction."""
    connection = ctx.connection
    assert connection is not None
    assert step.up_revision_id is not None
    connection.execute(delete(readable_since))
    connection.execute(insert(readable_since).values(revision=readable_since_of(step.up_revision_id)))


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    on_version_apply=note_readable_since,
)
with context.begin_transaction():
    context.run_migrations()

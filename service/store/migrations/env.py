"""Alembic runs this module for every command: the connection comes from `service.store.migrate.config`."""

from __future__ import annotations

from alembic import context

from service.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()

"""Alembic runs this module for every command: the connection comes from `service.store.migrate.config`."""

from __future__ import annotations

from alembic import context

from service.store.schema import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=connection.dialect.name == "sqlite",  # SQLite changes a column by copying its table
)
with context.begin_transaction():
    context.run_migrations()

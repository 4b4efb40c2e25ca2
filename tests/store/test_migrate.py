"""The migrations give the tables of `service.store.schema`, however often they run."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, inspect

from service.store.engine import open_engine, open_reader
from service.store.migrate import is_at_head, upgrade
from service.store.schema import metadata


def test_the_tables_are_those_of_the_schema(engine: Engine) -> None:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "render_as_batch": True})
        assert compare_metadata(context, metadata) == []
        inspector = inspect(connection)
        for table in metadata.sorted_tables:
            found = [(c["name"], c["nullable"]) for c in inspector.get_columns(table.name)]
            assert found == [(c.name, c.nullable) for c in table.columns]
            key = inspector.get_pk_constraint(table.name)["constrained_columns"]
            assert key == [c.name for c in table.primary_key.columns]


def test_an_upgrade_again_changes_nothing(engine: Engine, capfd: pytest.CaptureFixture[str]) -> None:
    handlers = list(logging.getLogger().handlers)
    upgrade(engine)
    assert is_at_head(engine)
    assert logging.getLogger().handlers == handlers
    assert capfd.readouterr() == ("", "")


def test_a_new_store_is_not_at_head_and_asking_does_not_create_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    reader = open_reader(url)
    assert not is_at_head(reader)
    engine = open_engine(url)
    upgrade(engine)
    assert is_at_head(reader)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA auto_vacuum").scalar() == 2
    reader.dispose()
    engine.dispose()


def test_an_upgrade_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'store.db'}")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE rejects (other INTEGER)")
    with pytest.raises(Exception, match="rejects already exists"):
        upgrade(engine)
    with engine.connect() as connection:
        assert inspect(connection).get_table_names() == ["rejects"]
    engine.dispose()

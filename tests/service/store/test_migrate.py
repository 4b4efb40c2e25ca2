"""Tests that migrations create the tables of `service.store.schema`, even if they are repeated or run concurrently.

Also tests late indexes, which are built after the first read of the log.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Engine, Index, Table, inspect

from service.store import clusters, late_indexes
from service.store.engine import open_engine, open_reader
from service.store.errors import StoreError, StoreUnavailable, redact_url
from service.store.migrate import current, head, upgrade
from service.store.schema import metadata
from service.store.schema_check import SchemaCheck
from tests.helpers.postgres import Postgres
from tests.service.store.conftest import Cluster, patient
from tests.service.store.logs import NOW_MS, batch, read, transaction

DEVELOPED = pytest.mark.parametrize(
    ("changes", "difference"),
    [
        (["ALTER TABLE findings DROP COLUMN application"], "findings.application is missing"),
        (["DROP TABLE telemetry"], "telemetry.instance is missing"),
        (
            [
                "DROP TABLE telemetry",
                "CREATE TABLE telemetry (instance TEXT, transition BIGINT, finding_event BIGINT, old BIGINT NOT NULL)",
            ],
            "telemetry.old is not known",
        ),
    ],
)
"""Changes that give a store of the newest revision the tables of an unreleased version, and the difference that the
error names."""


@pytest.fixture
def empty(empty_url: str) -> Iterator[Engine]:
    engine = open_engine(empty_url)
    yield engine
    engine.dispose()


def test_alembic_finds_no_difference_to_the_schema(empty: Engine) -> None:
    upgrade(empty)
    with empty.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True, "render_as_batch": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []


def test_the_tables_are_those_of_the_schema_in_every_detail(empty: Engine) -> None:
    """Alembic does not compare primary keys, the order of columns, or the condition of an index."""
    with empty.connect() as connection:
        metadata.create_all(connection)
        expected = described(connection)
        connection.rollback()
    upgrade(empty)
    with empty.connect() as connection:
        assert described(connection) == expected
        assert set(inspect(connection).get_table_names()) == {*metadata.tables, "alembic_version"}


def described(connection: Connection) -> dict[str, Any]:
    """Returns the database's own description of the tables."""
    inspector = inspect(connection)

    def by_name(get: Callable[[str], Any], table: Table) -> Any:
        return sorted(get(table.name), key=lambda found: str(found["name"]))

    return {
        table.name: {
            "columns": [column | {"type": str(column["type"])} for column in inspector.get_columns(table.name)],
            "key": inspector.get_pk_constraint(table.name),
            "foreign": by_name(inspector.get_foreign_keys, table),
            "unique": by_name(inspector.get_unique_constraints, table),
            "indexes": [_plain(index) for index in by_name(inspector.get_indexes, table)],
        }
        for table in metadata.sorted_tables
    }


def _plain(index: dict[str, Any]) -> dict[str, Any]:
    """Returns the index with its condition as text. On SQLite, the condition is an object."""
    return index | {"dialect_options": {k: str(v) for k, v in index.get("dialect_options", {}).items()}}


def is_at_head(engine: Engine) -> bool:
    with engine.connect() as connection:
        return current(connection) == head()


def test_a_second_upgrade_changes_nothing(engine: Engine, capfd: pytest.CaptureFixture[str]) -> None:
    handlers = list(logging.getLogger().handlers)
    upgrade(engine)
    assert is_at_head(engine)
    assert logging.getLogger().handlers == handlers
    assert capfd.readouterr() == ("", "")


@DEVELOPED
def test_a_store_of_an_unreleased_version_is_refused_in_one_line(
    cluster: Cluster, changes: list[str], difference: str
) -> None:
    """Until the first release, the first migration may change without a new revision."""
    with cluster.engine.begin() as connection:
        for change in changes:
            connection.exec_driver_sql(change)
    url = redact_url(cluster.engine.url)
    refused = f"store {url} has the tables of an unreleased version of txnscope ({difference})"
    with pytest.raises(StoreError, match=f"^{re.escape(refused)}.*; move it away, or give --store a new one"):
        upgrade(cluster.engine)
    with cluster.engine.connect() as connection, pytest.raises(StoreError, match=re.escape(difference)):
        SchemaCheck(cluster.engine).check(connection)


def test_an_additional_column_that_needs_no_value_is_no_difference(cluster: Cluster) -> None:
    with cluster.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE audit ADD COLUMN note TEXT")
        connection.exec_driver_sql("ALTER TABLE audit ADD COLUMN tries INTEGER NOT NULL DEFAULT 1")
    upgrade(cluster.engine)
    with cluster.engine.connect() as connection:
        SchemaCheck(cluster.engine).check(connection)


def test_several_processes_may_upgrade_at_once(empty_url: str) -> None:
    """Several drivers and `txnscope migrate` can upgrade one store at the same time."""
    engines = [open_engine(patient(empty_url)) for _ in range(3)]
    with ThreadPoolExecutor(len(engines)) as at_once:
        list(at_once.map(upgrade, engines))
    assert is_at_head(engines[0])
    for engine in engines:
        engine.dispose()


def test_a_new_store_is_not_at_head_and_the_check_changes_nothing(empty_url: str) -> None:
    reader, engine = open_reader(empty_url), open_engine(empty_url)
    if engine.dialect.name == "sqlite":
        with pytest.raises(StoreUnavailable, match="there is no such file; the application"):
            is_at_head(reader)
        assert not Path(engine.url.database or "").exists()
    else:
        assert not is_at_head(reader)
    upgrade(engine)
    assert is_at_head(reader)
    if engine.dialect.name == "sqlite":  # this setting is possible only when the file is created
        with engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA auto_vacuum").scalar() == 2
    reader.dispose()
    engine.dispose()


@pytest.mark.parametrize(
    ("revision", "says"),
    [
        pytest.param("9999", "it is newer than this version", id="newer"),
        pytest.param("0016", "from before the first release, .* give --store a new one", id="from before 0.1.0"),
    ],
)
def test_a_store_of_another_version_is_refused_and_left_as_it_is(engine: Engine, revision: str, says: str) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{revision}'")
        connection.exec_driver_sql("DELETE FROM readable_since")
    with pytest.raises(StoreError, match=rf"^store .* has the tables of revision {revision}.*{says}"):
        upgrade(engine)
    with engine.connect() as connection:
        assert current(connection) == revision
        with pytest.raises(StoreError, match=says):
            SchemaCheck(engine).check(connection)


def test_an_upgrade_to_the_next_version_keeps_the_rows(engine: Engine, next_version: Callable[[], str]) -> None:
    clusters.bind(engine, "orders", "kafka", NOW_MS)
    revision = next_version()
    with (
        engine.connect() as connection,
        pytest.raises(StoreError, match=r"revision r0001; the application .* migrates them"),
    ):
        SchemaCheck(engine).check(connection)
    upgrade(engine)
    with engine.connect() as connection:
        assert current(connection) == revision
        assert connection.exec_driver_sql("SELECT name, added FROM clusters").all() == [("orders", None)]


def test_an_upgrade_that_fails_leaves_nothing_behind(empty: Engine) -> None:
    with empty.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE rejects (other INTEGER)")
    with pytest.raises(Exception, match=r"rejects\"? already exists"):
        upgrade(empty)
    with empty.connect() as connection:
        assert inspect(connection).get_table_names() == ["rejects"]


def test_a_database_that_cannot_hold_every_character_is_refused(postgres: Postgres) -> None:
    postgres.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE_PROVIDER libc LOCALE 'C'")
    engine = open_engine(postgres.url("latin"))
    with pytest.raises(StoreError, match=r"LATIN1 .* UTF8"):
        upgrade(engine)
    engine.dispose()
    postgres.execute("DROP DATABASE latin")


TABLES = ("transactional_ids", "producer_ids")


def indexes(engine: Engine) -> list[str]:
    found = (index for table in TABLES for index in inspect(engine).get_indexes(table))
    return sorted(
        f"{index['name']} {index['column_names']} {sorted(map(str, index['dialect_options'].values()))}"
        for index in found
    )


def build_all(engine: Engine, missing: list[Index]) -> None:
    while missing:
        late_indexes.build_one(engine, missing)


def test_dropped_indexes_are_built_again_unchanged(engine: Engine) -> None:
    before = indexes(engine)
    assert late_indexes.missing(engine) == []
    late_indexes.drop_where_empty(engine)
    kept = [line.partition(" ")[0] for line in indexes(engine)]
    few = ("application", "new", "open", "settles")
    assert kept == [f"ix_transactional_ids_{name}" for name in few], "only indexes that contain few rows are kept"
    missing = late_indexes.missing(engine)
    assert len(missing) == len(before) - len(kept)
    late_indexes.build_one(engine, missing)
    build_all(engine, late_indexes.missing(engine))
    build_all(engine, missing)  # as if another process had built the indexes meanwhile
    assert indexes(engine) == before


def test_a_store_with_ids_keeps_its_indexes(engine: Engine, cluster: Cluster) -> None:
    """The readers of another cluster use the indexes."""
    before = indexes(engine)
    cluster.start({0: 0})
    cluster.writer.apply(batch(transaction(0, start_ms=1_000), read(0, 3)), NOW_MS)
    late_indexes.drop_where_empty(engine)
    assert indexes(engine) == before


def test_an_index_that_cannot_be_built_now_is_built_later(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    before = indexes(engine)
    late_indexes.drop_where_empty(engine)
    missing = late_indexes.missing(engine)

    def refuse(*_: object, **__: object) -> None:
        raise StoreUnavailable("locked")

    with monkeypatch.context() as locked:
        locked.setattr(Index, "create", refuse)
        with pytest.raises(StoreUnavailable):
            late_indexes.build_one(engine, missing)
    build_all(engine, missing)
    assert indexes(engine) == before

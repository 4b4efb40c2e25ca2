"""Tests this version on a store that a newer version has migrated. If the newer version only added tables or columns,
this version continues. Otherwise this version refuses the store with an error of one line."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect

from service.store import lease, migrate
from service.store.engine import open_engine
from service.store.errors import LeaseLost, StoreTooNew
from service.store.leased_work import LeasedWork
from service.store.schema import metadata
from service.store.schema_check import SchemaCheck
from tests.helpers.next_version import REVISION, as_next_version, migrate_by_next_version
from tests.helpers.paths import ROOT
from tests.helpers.waiting import LIMIT_S, wait_for
from tests.service.store.conftest import Cluster, only_on, take_over
from tests.service.store.logs import NOW_MS, batch, read, transaction

REFUSED: Final = "has the tables of revision r9998: it is newer than this version of txnscope; update txnscope"


def test_each_revision_says_since_when_its_tables_can_be_read() -> None:
    scripts = ScriptDirectory(str(migrate._SCRIPTS))
    for script in scripts.walk_revisions():
        since = migrate.readable_since_of(script.revision)
        before = {revision.revision for revision in scripts.iterate_revisions(script.revision, "base")}
        assert since in before, f"{script.revision}: {since} is no earlier revision"


def shut_out(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Returns the changes from the tables `before` to the tables `after` that a program written for `before` cannot
    handle."""
    found = [f"no table {table}" for table in before.keys() - after.keys()]
    for table in before.keys() & after.keys():
        old, new = before[table], after[table]
        found += [f"{table}.{name} is gone or changed" for name in old if old[name] != new.get(name)]
        found += [
            f"{table}.{name} must be given"
            for name in new.keys() - old.keys()
            if new[name] == (new[name][0], False, None)
        ]
    return sorted(found)


def tables_at(directory: Path, revision: str) -> dict[str, Any]:
    """Returns, for a new store of this revision, the columns of each table: (type, whether null is allowed, default),
    keyed by table and then by column."""
    engine = open_engine(f"sqlite:///{directory / revision}.db")
    with engine.begin() as connection:
        command.upgrade(migrate.config(connection), revision)
    with engine.connect() as connection:
        found = inspect(connection)
        tables = {
            table: {
                column["name"]: (str(column["type"]), column["nullable"], column["default"])
                for column in found.get_columns(table)
            }
            for table in found.get_table_names()
        }
    engine.dispose()
    return tables


def test_revisions_that_older_versions_can_read_only_add(tmp_path: Path) -> None:
    with as_next_version(tmp_path):
        for script in ScriptDirectory(str(migrate._SCRIPTS)).walk_revisions():
            before = tables_at(tmp_path, migrate.readable_since_of(script.revision))
            assert shut_out(before, tables_at(tmp_path, script.revision)) == [], script.revision


def test_a_renamed_column_shuts_older_versions_out(tmp_path: Path) -> None:
    with as_next_version(tmp_path, only_adds=False):
        found = shut_out(tables_at(tmp_path, "r0001"), tables_at(tmp_path, REVISION))
    assert found == ["clusters.name is gone or changed", "clusters.title must be given"]


def test_a_store_holds_the_revision_since_which_it_can_be_read(engine: Engine, tmp_path: Path) -> None:
    with engine.connect() as connection:
        assert migrate.readable_since(connection) == "r0001"
    migrate_by_next_version(engine, tmp_path, only_adds=False)
    with engine.connect() as connection:
        assert migrate.readable_since(connection) == REVISION


def test_a_version_goes_on_with_a_store_that_a_newer_one_added_to(
    engine: Engine, cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A running job keeps its lease, and writes as before. A job that starts later can take over the lease."""
    cluster.start({0: 0})
    cluster.writer.apply(batch(transaction(0, start_ms=1_000), read(0, 3)), NOW_MS)
    migrate_by_next_version(engine, tmp_path)
    cluster.writer.apply(batch(transaction(3, start_ms=2_000), read(3, 6)), NOW_MS)
    lease.renew(engine, cluster.lease, NOW_MS + 1)
    with caplog.at_level(logging.WARNING):
        migrate.upgrade(engine)
    assert take_over(engine, cluster.id) is not None
    assert cluster.positions()[0].next_offset == 6
    with engine.connect() as connection:
        assert migrate.current(connection) == REVISION, "the tables of the newer version stay"
    (line,) = [record.message for record in caplog.records if record.name == "txnscope.store"]
    assert "a newer version of txnscope has added to the store (revision r9998; this version knows r0001)" in line


def test_a_running_check_reports_a_newer_version_until_the_store_is_its_own_again(
    engine: Engine, tmp_path: Path
) -> None:
    check = SchemaCheck(engine)

    def found() -> str | None:
        with engine.connect() as connection:
            check.check(connection)
        return check.newer

    assert found() is None
    migrate_by_next_version(engine, tmp_path)
    assert "this version continues to use the store" in (found() or "")
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'r0001'")
    assert found() is None


def test_a_rolled_back_job_and_the_next_upgrade_lose_nothing(engine: Engine, cluster: Cluster, tmp_path: Path) -> None:
    """The next upgrade finds the rows that the older version wrote, with the defaults of the added columns."""
    cluster.start({0: 0})
    migrate_by_next_version(engine, tmp_path)
    cluster.writer.apply(batch(transaction(0, start_ms=1_000), read(0, 3)), NOW_MS)
    with as_next_version(tmp_path):
        migrate.upgrade(engine)
        with engine.connect() as connection:
            SchemaCheck(engine).check(connection)
    with engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT added, counted_as FROM transactional_ids").all()
    assert rows == [(None, 0)]


def test_a_job_that_cannot_use_the_newer_tables_loses_its_lease(
    engine: Engine, cluster: Cluster, tmp_path: Path
) -> None:
    migrate_by_next_version(engine, tmp_path, only_adds=False)
    with pytest.raises(LeaseLost):
        lease.renew(engine, cluster.lease, NOW_MS)
    with pytest.raises(StoreTooNew, match=REFUSED):
        take_over(engine, cluster.id)


def test_work_under_a_lease_does_not_begin_on_tables_that_are_too_new(engine: Engine, tmp_path: Path) -> None:
    """The notifier, the canary and the export of telemetry are work under a lease."""
    migrate_by_next_version(engine, tmp_path, only_adds=False)
    with pytest.raises(StoreTooNew, match=REFUSED):
        lease.acquire(engine, lease.NOTIFIER, "service", NOW_MS)
    work = LeasedWork(engine, lease.NOTIFIER, "notifier", lambda _: pytest.fail("the work began"), lambda: NOW_MS)
    work.start()
    work.stop(LIMIT_S)


def test_tables_that_are_too_new_are_refused_and_left_as_they_are(engine: Engine, tmp_path: Path) -> None:
    migrate_by_next_version(engine, tmp_path, only_adds=False)
    before = inspect(engine).get_columns("clusters")
    with pytest.raises(StoreTooNew, match=REFUSED):
        migrate.upgrade(engine)
    with engine.connect() as connection, pytest.raises(StoreTooNew, match=REFUSED):
        SchemaCheck(engine).check(connection)
    assert [column["name"] for column in inspect(engine).get_columns("clusters")] == [one["name"] for one in before]


@only_on("postgresql")
def test_a_migration_neither_disturbs_a_reader_nor_is_its_victim(engine: Engine, tmp_path: Path) -> None:
    """If the migration locked one table after the other, the migration and a reader of two tables could wait for each
    other."""
    with ThreadPoolExecutor(1) as at_once, engine.connect() as reader:
        reader.exec_driver_sql("SELECT * FROM transitions").all()
        migrating = at_once.submit(migrate_by_next_version, engine, tmp_path)
        with engine.connect() as other:
            locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"
            wait_for(lambda: other.exec_driver_sql(locks).scalar_one(), "the migration to begin")
        for table in sorted(metadata.tables):
            reader.exec_driver_sql(f"SELECT * FROM {table}").all()
        assert not migrating.done()
        reader.close()
        migrating.result(LIMIT_S)
    with engine.connect() as connection:
        assert migrate.current(connection) == REVISION


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Returns a function that runs a module of this version to its end: in the folder of the test, and without the
    TXNSCOPE_ variables of the environment."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("TXNSCOPE_")}

    def begin(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=tmp_path,
            env=ours | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )

    return begin


@pytest.mark.in_turns
def test_job_and_commands_refuse_a_store_that_is_too_new_in_the_same_line(url: str, tmp_path: Path, run: Run) -> None:
    engine = open_engine(url)
    migrate.upgrade(engine)
    migrate_by_next_version(engine, tmp_path, only_adds=False)
    engine.dispose()
    for arguments in (
        ("ingest", "--bootstrap-servers", "127.0.0.1:1", "--store", url, "--cluster", "orders"),
        ("migrate", "--store", url),
        ("keys", "list", "--store", url),
        ("keys", "create", "ann", "--role", "viewer", "--store", url),
    ):
        ended = run("service.cli", *arguments)
        assert ended.returncode == 2, ended.stderr
        assert ended.stderr.count(REFUSED) == 1, ended.stderr
        assert "Traceback" not in ended.stderr


def test_commands_go_on_with_a_store_that_a_newer_version_added_to(url: str, tmp_path: Path, run: Run) -> None:
    engine = open_engine(url)
    migrate.upgrade(engine)
    migrate_by_next_version(engine, tmp_path)
    engine.dispose()
    for arguments in (("migrate",), ("keys", "create", "ann", "--role", "viewer"), ("keys", "list")):
        ended = run("service.cli", *arguments, "--store", url)
        assert ended.returncode == 0, ended.stderr
        assert ended.stderr.count("a newer version of txnscope has added to the store") == 1, ended.stderr

"""Tests of a PostgreSQL server that ends sessions, is locked, or is read-only.

Each fault raises an error of one line. After the fault the store works again, and no row is lost or counted twice.
Restarts are in test_postgresql.py. The last tests check the helper that starts the PostgreSQL server.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine, text

from deploy.demo.child_process import ROOT
from service.store.engine import open_reader
from service.store.errors import StoreDamaged, StoreUnavailable
from tests.helpers.postgres import Postgres, PostgresError, find_programs
from tests.helpers.processes import is_alive
from tests.helpers.waiting import wait_until_equal
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, batch, counters, read, transaction

NEW = batch(transaction(0, start_ms=1), read(0, 3))
SECOND = batch(transaction(3, start_ms=1), read(3, 6))


@pytest.fixture
def url(own_server: Postgres) -> Iterator[str]:
    with own_server.database() as url:
        yield url


@pytest.fixture
def reader(url: str) -> Iterator[Engine]:
    reader = open_reader(url)
    yield reader
    reader.dispose()


SESSIONS = "SELECT count(*) FROM pg_stat_activity"
SHOW_READ_ONLY = "SHOW default_transaction_read_only"


def ids(reader: Engine) -> int:
    with reader.connect() as connection:
        return int(connection.execute(text("SELECT count(*) FROM transactional_ids")).scalar_one())


def database_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


def test_a_session_that_idled_too_long_in_a_transaction_is_unavailable(
    cluster: Cluster, reader: Engine, own_server: Postgres, url: str
) -> None:
    own_server.execute(f"ALTER DATABASE {database_of(url)} SET idle_in_transaction_session_timeout = '1s'")
    for engine in (cluster.engine, reader):
        engine.dispose()
        with engine.connect() as connection:
            pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
            wait_until_equal(
                partial(own_server.execute, f"{SESSIONS} WHERE pid = {pid}"),
                [(0,)],
                "the number of sessions with this pid",
            )
            with pytest.raises(StoreUnavailable) as caught:
                connection.exec_driver_sql("SELECT 1")
        assert "\n" not in str(caught.value)
    own_server.execute(f"ALTER DATABASE {database_of(url)} RESET idle_in_transaction_session_timeout")
    cluster.writer.apply(NEW, NOW_MS)
    assert counters(cluster.engine, cluster.id)["commits"] == 1
    assert ids(reader) == 1


def test_a_read_only_server_is_unavailable_to_all_until_it_is_writable(
    cluster: Cluster, reader: Engine, own_server: Postgres
) -> None:
    assert ids(reader) == 0
    set_read_only(own_server, "on")
    try:
        for engine in (cluster.engine, reader):
            wait_until_equal(partial(has_applied_read_only, engine), True, "whether the session is read-only")
        for _ in range(2):  # over the existing connection, and over a new one
            with pytest.raises(StoreUnavailable, match="read-only"):
                cluster.writer.apply(NEW, NOW_MS)
            with pytest.raises(StoreUnavailable, match="read-only"):
                ids(reader)
    finally:
        set_read_only(own_server, "off")
    cluster.writer.apply(NEW, NOW_MS)
    assert counters(cluster.engine, cluster.id)["commits"] == 1
    assert ids(reader) == 1


def set_read_only(own_server: Postgres, value: str) -> None:
    own_server.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
    own_server.execute("SELECT pg_reload_conf()")
    wait_until_equal(lambda: own_server.execute(SHOW_READ_ONLY), [(value,)], "default_transaction_read_only")


def has_applied_read_only(engine: Engine) -> bool:
    """Returns whether a session of the engine is read-only already: a session applies a changed setting with some
    delay. Also returns True if the store is unavailable."""
    try:
        with engine.connect() as connection:
            return bool(connection.exec_driver_sql(SHOW_READ_ONLY).scalar_one() == "on")
    except StoreUnavailable:
        return True


def test_a_primary_that_was_demoted_is_unavailable_until_one_is_promoted(
    cluster: Cluster, reader: Engine, url: str, own_server: Postgres
) -> None:
    cluster.writer.apply(NEW, NOW_MS)
    assert counters(cluster.engine, cluster.id)["commits"] == 1
    any_server = open_reader(f"{url}&target_session_attrs=any")
    own_server.stop()
    (own_server.directory / "data" / "standby.signal").touch()
    own_server.start()
    try:
        assert own_server.execute("SELECT pg_is_in_recovery()") == [(True,)]
        for says in (None, "read-only"):  # the first attempt may use the old connection, which the restart has closed
            with pytest.raises(StoreUnavailable, match=says):
                cluster.writer.apply(SECOND, NOW_MS)
            with pytest.raises(StoreUnavailable, match=says):
                ids(reader)
        assert ids(any_server) == 1
    finally:
        own_server.execute("SELECT pg_promote()")
    assert ids(reader) == 1
    for _ in range(2):
        cluster.writer.apply(SECOND, NOW_MS)
        assert counters(cluster.engine, cluster.id)["commits"] == 2
    any_server.dispose()


def test_a_table_that_is_locked_for_ddl_is_unavailable_soon(cluster: Cluster, url: str, reader: Engine) -> None:
    waits = open_reader(f"{url}&options=-c%20lock_timeout%3D10ms")
    with psycopg.connect(url) as another:
        another.execute("LOCK TABLE transactional_ids IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreUnavailable, match=r"canceling statement due to lock timeout$"):
            ids(waits)
    assert ids(waits) == 0
    waits.dispose()
    with reader.connect() as connection:
        shown = [connection.exec_driver_sql(f"SHOW {name}_timeout").scalar() for name in ("lock", "statement")]
    assert shown == ["5s", "30s"]


def test_a_statement_that_takes_too_long_is_unavailable(url: str, engine: Engine) -> None:
    reader = open_reader(f"{url}&options=-c%20statement_timeout%3D10ms")
    with pytest.raises(StoreUnavailable, match="statement timeout"), reader.connect() as connection:
        connection.exec_driver_sql("SELECT pg_sleep(10)")
    reader.dispose()


@pytest.mark.parametrize("code", ["XX001", "XX002"])
def test_the_error_about_damage_names_the_remedy(engine: Engine, code: str) -> None:
    says = f"DO $$ BEGIN RAISE EXCEPTION 'invalid page' USING ERRCODE = '{code}'; END $$"
    with pytest.raises(StoreDamaged, match=r"invalid page.*restore a backup"), engine.begin() as connection:
        connection.exec_driver_sql(says)


# the helper that starts the PostgreSQL server of the tests


A_TEST_RUN = """
import time
from tests.helpers.postgres import Postgres
with Postgres() as server:
    print(server.directory, flush=True)
    time.sleep(1000)
"""


def server_of(directory: Path) -> int:
    return int((directory / "data" / "postmaster.pid").read_text().split()[0])


def wait_until_gone(pid: int) -> None:
    wait_until_equal(lambda: is_alive(pid), False, "whether the server runs")


def test_the_server_and_its_directory_are_gone_after_the_with_block() -> None:
    with Postgres() as server:
        pid = server_of(server.directory)
        assert server.execute("SELECT 1") == [(1,)]
    assert not is_alive(pid)
    assert not server.directory.exists()


def test_the_server_and_directory_of_a_killed_run_are_removed() -> None:
    run = subprocess.Popen([sys.executable, "-c", A_TEST_RUN], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    directory = Path(run.stdout.readline().strip())
    pid = server_of(directory)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    wait_until_gone(pid)
    with Postgres():
        assert not directory.exists()


def test_a_missing_server_is_reported_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PostgresError, match="make system-packages"):
        find_programs(packaged=tmp_path)


def test_the_newest_packaged_server_is_used(tmp_path: Path) -> None:
    for version in ("9", "15", "17"):
        programs = tmp_path / version / "bin"
        programs.mkdir(parents=True)
        (programs / "postgres").touch()
    (tmp_path / "18" / "bin").mkdir(parents=True)  # only the client is installed
    assert find_programs(packaged=tmp_path) == tmp_path / "17" / "bin"

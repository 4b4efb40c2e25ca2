"""Tests of opening a store, of errors of an unusable store, and of versions of its data."""

from __future__ import annotations

import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import psycopg
import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from service.store import clusters, schema
from service.store.engine import DataVersions, open_engine, open_reader
from service.store.errors import StoreError, StoreUnavailable
from tests.helpers.waiting import LIMIT_S
from tests.service.store.conftest import Cluster, only_on
from tests.service.store.logs import NOW_MS, batch, counters, everything, read, transaction


@pytest.mark.parametrize(
    "url",
    [
        "",
        "store.db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:////no/such/folder/s.db",
        "mysql://h/db",
        "sqlite+x:///f",
    ],
)
def test_the_error_names_a_bad_store_url_in_one_line(url: str) -> None:
    for opens in (open_engine, open_reader):
        with pytest.raises(StoreError) as caught:
            opens(url)
        assert (url.partition(":")[0] or repr(url)) in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://me:secret@host/db",
        "postgresql://me:secret@host:port/db",
        "postgresql://me:one/secret@host:port/db",
        "postgresql://me:one secret@host:port/db",
        "postgresql://me:one@secret@host:port/db",
        "postgresql:/me:secret@host/db",
        "me:secret@host/db",
        "mysql://host/db?user=me&password=secret",
        "postgresql://host:port/db?sslPassword=secret&user=me",
    ],
)
def test_a_password_is_not_shown(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        open_engine(url)
    assert "secret" not in str(caught.value)
    assert "host" in str(caught.value)


def test_the_error_names_an_inaccessible_folder_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = "d" * 300
    with pytest.raises(StoreError, match=rf"^store sqlite:.*: {tmp_path}/{long}: File name too long$"):
        open_engine(f"sqlite:///{tmp_path}/{long}/s.db")

    def refuse(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", refuse)  # no real directory is refused here: root can read every directory
    with pytest.raises(StoreError, match=rf"^store sqlite:.*: {tmp_path}: Permission denied$"):
        open_engine(f"sqlite:///{tmp_path}/s.db")


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a database, by no means " * 100)
    engine = open_engine(f"sqlite:///{file}")
    with pytest.raises(StoreError, match=r"notes\.txt: file is not a database"):
        engine.connect()
    engine.dispose()


@only_on("sqlite")
def test_sqlite_is_set_up_for_one_writer_and_many_readers(cluster: Cluster) -> None:
    with cluster.engine.connect() as connection:
        values = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("page_size", "auto_vacuum", "journal_mode", "synchronous", "foreign_keys")
        }
    assert values == {
        "page_size": 8192,
        "auto_vacuum": 2,
        "journal_mode": "wal",
        "synchronous": 1,
        "foreign_keys": 1,
    }


def test_a_reader_cannot_write_and_sees_one_state_while_the_writer_goes_on(cluster: Cluster, url: str) -> None:
    reader = open_reader(url)
    names = text("SELECT count(*) FROM transactional_ids")
    with reader.connect() as connection:
        assert connection.execute(names).scalar() == 0
        cluster.writer.apply(batch(transaction(0, start_ms=1), read(0, 3)), NOW_MS)
        assert connection.execute(names).scalar() == 0
    with reader.connect() as connection:
        assert connection.execute(names).scalar() == 1
    # SQLite reports the same error for a disk that is temporarily read-only
    refused = StoreUnavailable if cluster.engine.dialect.name == "sqlite" else DBAPIError
    with pytest.raises(refused, match=r"read-?only"), reader.begin() as connection:
        connection.execute(schema.leases.delete())
    reader.dispose()


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Holds a write lock as another process would."""
    if not url.startswith("sqlite"):
        with psycopg.connect(url) as another:
            another.execute("SELECT * FROM leases FOR UPDATE")
            yield
        return
    other = sqlite3.connect(url.removeprefix("sqlite:///").partition("?")[0], isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


def test_a_process_waits_while_another_sets_up_the_same_new_file(tmp_path: Path) -> None:
    """If two processes start at the same time, SQLite itself refuses the second one, whatever the lock timeout is. So
    the store itself waits for the lock."""
    engine = open_engine(f"sqlite:///{tmp_path}/new.db?timeout=300")
    with ThreadPoolExecutor(1) as starts:
        other = sqlite3.connect(tmp_path / "new.db", isolation_level=None)
        other.executescript("CREATE TABLE of_another (id); BEGIN IMMEDIATE")
        opened = starts.submit(engine.connect)
        with pytest.raises(TimeoutError):
            opened.result(timeout=0.5)
        other.close()
        with opened.result() as connection:
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    engine.dispose()


def test_a_locked_store_stores_nothing_and_takes_the_same_batch_later(cluster: Cluster, url: str) -> None:
    before = everything(cluster.engine, cluster.id)
    new = batch(transaction(0, start_ms=1), read(0, 3))
    with locked(url), pytest.raises(StoreUnavailable, match="lock"):
        cluster.writer.apply(new, NOW_MS)
    assert everything(cluster.engine, cluster.id) == before
    cluster.writer.apply(new, NOW_MS)
    assert counters(cluster.engine, cluster.id)["commits"] == 1


@only_on("sqlite")  # PostgreSQL cannot be filled here; its message is tested below
def test_a_full_store_stores_nothing(cluster: Cluster) -> None:
    with cluster.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    before = everything(cluster.engine, cluster.id)
    many = [e for i in range(50) for e in transaction(3 * i, b"%d" % i * 1000, start_ms=i)]
    with pytest.raises(StoreUnavailable, match="full"):
        cluster.writer.apply(batch(many, read(0, 150)), NOW_MS)
    assert everything(cluster.engine, cluster.id) == before


def test_a_programming_error_is_not_reported_as_unavailable(cluster: Cluster) -> None:
    with pytest.raises(DBAPIError, match=r"no such table|does not exist"), cluster.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM missing")


PASSING = {
    "53100": "disk full",
    "53300": "too many connections",
    "55P03": "lock not available",
    "57P01": "the server shuts down",
    "57014": "statement timeout",
    "58030": "input or output error",
    "40P01": "deadlock",
    "40001": "serialization failure",
}


@only_on("postgresql")
@pytest.mark.parametrize("code", PASSING, ids=PASSING.values())
def test_a_transient_error_is_reported_as_unavailable(engine: Engine, code: str) -> None:
    says = f"DO $$ BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '{code}'; END $$"
    with pytest.raises(StoreUnavailable, match="not now"), engine.begin() as connection:
        connection.exec_driver_sql(says)


@pytest.mark.parametrize("opens", [open_engine, open_reader])
def test_a_server_that_does_not_exist_is_unavailable_and_named(opens: Callable[[str], Engine]) -> None:
    engine = opens("postgresql://me:secret@127.0.0.1:1/db")
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1") as caught:
        engine.connect()
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_server_that_never_answers_is_unavailable_soon() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        engine = open_engine(f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/db")
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="timeout"):
            engine.connect()
        assert time.monotonic() - began < LIMIT_S


@pytest.fixture
def versions(url: str, cluster: Cluster) -> Iterator[DataVersions]:
    engine = open_reader(url)
    versions = DataVersions(engine)
    yield versions
    versions.close()
    engine.dispose()


def test_a_commit_changes_the_data_version(versions: DataVersions, cluster: Cluster) -> None:
    seen = [versions.current()]
    for name in ("payments", "stock"):
        clusters.bind(cluster.engine, name, f"kafka-{name}", NOW_MS)
        seen.append(versions.current())
    assert None not in seen
    assert len(set(seen)) == 3


@only_on("sqlite")
def test_reading_does_not_change_the_data_version(versions: DataVersions, cluster: Cluster, url: str) -> None:
    before = versions.current()
    engine = open_reader(url)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM clusters").scalar_one() == 1
    engine.dispose()
    assert versions.current() == before


def test_readers_do_not_queue_while_the_store_does_not_answer() -> None:
    asked, answers = threading.Event(), threading.Event()

    def connect() -> Mock:
        asked.set()
        answers.wait(LIMIT_S)
        raise StoreUnavailable

    engine = Mock()
    engine.dialect.name = "postgresql"
    engine.connect.side_effect = connect
    versions = DataVersions(engine)
    first = threading.Thread(target=versions.current)
    first.start()
    try:
        assert asked.wait(LIMIT_S)
        assert versions.current() is None
        assert first.is_alive()
    finally:
        answers.set()
        first.join()


def test_a_new_connection_changes_the_data_version(versions: DataVersions) -> None:
    before = versions.current()
    versions.close()
    assert versions.current() not in (None, before)

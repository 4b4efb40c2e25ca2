"""Opening a store, and what happens when it cannot be used."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from service.store import schema
from service.store.engine import open_engine, open_reader
from service.store.errors import StoreError, StoreUnavailable
from tests.store.conftest import Cluster
from tests.store.logs import NOW_MS, batch, everything, read, transaction


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
def test_a_url_that_is_no_store_is_named_in_one_line(url: str) -> None:
    for opens in (open_engine, open_reader):
        with pytest.raises(StoreError) as caught:
            opens(url)
        assert (url.partition(":")[0] or repr(url)) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_password_is_not_shown() -> None:
    with pytest.raises(StoreError) as caught:
        open_engine("mysql://me:secret@host/db")
    assert "secret" not in str(caught.value)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a database, by no means " * 100)
    engine = open_engine(f"sqlite:///{file}")
    with pytest.raises(StoreError, match=r"notes\.txt: file is not a database"):
        engine.connect()
    engine.dispose()


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
    with pytest.raises(StoreUnavailable, match="readonly"), reader.begin() as connection:
        connection.execute(schema.leases.delete())
    reader.dispose()


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Another process writes."""
    other = sqlite3.connect(url.removeprefix("sqlite:///").partition("?")[0], isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


def test_a_locked_store_takes_nothing_and_the_same_batch_later(cluster: Cluster, url: str) -> None:
    before = everything(cluster.engine, cluster.id)
    new = batch(transaction(0, start_ms=1), read(0, 3))
    with locked(url), pytest.raises(StoreUnavailable, match="locked"):
        cluster.writer.apply(new, NOW_MS)
    assert everything(cluster.engine, cluster.id) == before
    assert cluster.writer.apply(new, NOW_MS).ended.commits == 1


def test_a_full_store_takes_nothing(cluster: Cluster) -> None:
    with cluster.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    before = everything(cluster.engine, cluster.id)
    many = [e for i in range(50) for e in transaction(3 * i, b"%d" % i * 1000, start_ms=i)]
    with pytest.raises(StoreUnavailable, match="full"):
        cluster.writer.apply(batch(many, read(0, 150)), NOW_MS)
    assert everything(cluster.engine, cluster.id) == before


def test_a_mistake_is_not_called_unavailable(cluster: Cluster) -> None:
    with pytest.raises(OperationalError, match="no such table"), cluster.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM missing")

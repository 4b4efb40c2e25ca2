"""Tests of a SQLite file that is deleted, replaced or damaged while it is open: no write is lost silently."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from service.store import clusters, lease
from service.store.engine import open_engine, open_reader
from service.store.errors import StoreDamaged, StoreError, StoreLost, StoreReplaced, StoreUnavailable
from service.store.migrate import upgrade
from service.store.schema_check import SchemaCheck
from service.store.writers.transaction_log import TransactionLogWriter
from tests.helpers.damaged_pages import PAGE, all_of, file_of, overwrite, pages_of
from tests.helpers.migrated import migrated
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, batch, counters, everything, read, transaction

Harm = Callable[[Path], None]

NAMES = text("SELECT count(*) FROM transactional_ids")
NEW = batch(transaction(0, start_ms=1), read(0, 3))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}?timeout=0.01"


@pytest.fixture
def file(url: str) -> Path:
    return file_of(url)


@pytest.fixture
def reader(url: str, cluster: Cluster) -> Iterator[Engine]:
    reader = open_reader(url)
    yield reader
    reader.dispose()


def ids(reader: Engine) -> int:
    with reader.connect() as connection:
        return int(connection.execute(NAMES).scalar_one())


def delete(file: Path) -> None:
    file.unlink()


def delete_all(file: Path) -> None:
    for path in all_of(file):
        path.unlink()


def replace(file: Path) -> None:
    """Replaces the file with a store that has the newest tables, as if an operator had restored a backup."""
    other = file.with_name("other.db")
    migrated(open_engine(f"sqlite:///{other}")).dispose()
    delete_all(file)
    other.rename(file)


def delete_log(file: Path) -> None:
    file.with_name(f"{file.name}-wal").unlink()


@pytest.mark.parametrize("harm", [delete, delete_all, replace, delete_log])
def test_a_writer_whose_file_is_gone_neither_writes_nor_takes_another(cluster: Cluster, file: Path, harm: Harm) -> None:
    harm(file)
    there = set(file.parent.iterdir())
    for _ in range(3):
        with pytest.raises(StoreReplaced, match=r"^store sqlite:.*store\.db.*: (its|another) .*file"):
            cluster.writer.apply(NEW, NOW_MS)
        with pytest.raises(StoreReplaced):
            lease.renew(cluster.engine, cluster.lease, NOW_MS)
    assert set(file.parent.iterdir()) <= there


def test_a_reader_of_a_deleted_file_is_refused_then_reads_the_new_one(reader: Engine, file: Path) -> None:
    assert ids(reader) == 0
    delete_all(file)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="there is no such file"):
            ids(reader)
    assert not file.exists()
    other = open_engine(f"sqlite:///{file}")
    upgrade(other)
    assert ids(reader) == 0
    other.dispose()


def test_a_reader_switches_to_a_replaced_file(cluster: Cluster, reader: Engine, file: Path) -> None:
    cluster.writer.apply(NEW, NOW_MS)
    assert ids(reader) == 1
    replace(file)
    assert ids(reader) == 0


def test_an_open_connection_notices_a_replaced_file(reader: Engine, file: Path) -> None:
    with reader.connect() as connection:
        connection.execute(NAMES)
        connection.commit()
        replace(file)
        with pytest.raises(StoreUnavailable, match="its file was replaced by another one"):
            connection.execute(NAMES)


def test_readers_recover_from_a_deleted_wal_when_the_writer_restarts(
    cluster: Cluster, reader: Engine, url: str, file: Path
) -> None:
    """A sound file without its WAL may look damaged to readers until the writer has restarted."""
    cluster.writer.apply(NEW, NOW_MS)
    assert ids(reader) == 1
    delete_log(file)
    for opened in (reader, open_reader(url)):
        with suppress(StoreError):
            ids(opened)
        opened.dispose()
    with pytest.raises(StoreReplaced):
        cluster.writer.apply(NEW, NOW_MS)
    cluster.engine.dispose()
    again = open_engine(url)
    held = lease.acquire(again, cluster.id, "driver", NOW_MS)
    assert held is not None
    TransactionLogWriter(again, held).apply(NEW, NOW_MS)
    assert ids(reader) == 1
    again.dispose()


def test_closing_old_connections_keeps_the_wal_of_the_new_file(cluster: Cluster, file: Path) -> None:
    """When the last connection to a file closes, SQLite deletes the file's WAL by name. The WAL of the new file has the
    same name."""
    replace(file)
    writer = open_engine(f"sqlite:///{file}")
    with writer.begin() as connection:
        connection.exec_driver_sql("INSERT INTO clusters (name, kafka_cluster_id, bound_at_ms) VALUES ('a', 'b', 1)")
    cluster.engine.dispose()
    reader = open_reader(f"sqlite:///{file}")
    with reader.connect() as connection:
        assert connection.execute(text("SELECT name FROM clusters")).scalars().all() == ["a"]
    for engine in (reader, writer):
        engine.dispose()


def test_a_store_that_is_replaced_by_an_empty_file_has_no_tables(reader: Engine, file: Path) -> None:
    check = SchemaCheck(reader)
    with reader.connect() as connection:
        check.check(connection)
    delete_all(file)
    file.touch()
    with reader.connect() as connection, pytest.raises(StoreError, match="has no tables yet"):
        check.check(connection)


def fill(cluster: Cluster) -> None:
    many = [e for i in range(300) for e in transaction(3 * i, b"id-%d" % i * 20, start_ms=i)]
    cluster.writer.apply(batch(many, read(0, 900)), NOW_MS)
    cluster.engine.dispose()  # closing the last connection moves the WAL into the file


def overwrite_ids(file: Path) -> None:
    overwrite(file, pages_of(file, "transactional_ids"))


def cut(file: Path) -> None:
    os.truncate(file, 5 * PAGE)


@pytest.mark.parametrize("harm", [overwrite_ids, cut])
def test_damage_is_reported_with_its_remedy_until_the_file_is_replaced(
    cluster: Cluster, url: str, file: Path, harm: Harm
) -> None:
    fill(cluster)
    shutil.copy(file, file.with_name("good.db"))
    harm(file)
    with pytest.raises(StoreDamaged, match=r"^store sqlite:.*store\.db.* malformed; `txnscope migrate --rebuild`"):
        everything(cluster.engine, cluster.id)
    for opens in (open_engine, open_reader):
        engine = opens(url)
        with pytest.raises(StoreDamaged), engine.connect() as connection:
            connection.execute(text("SELECT 1"))
        engine.dispose()
    delete_all(file)
    file.with_name("good.db").rename(file)
    reader = open_reader(url)
    assert ids(reader) == 300
    reader.dispose()


def test_a_writer_that_meets_damage_stops(cluster: Cluster, url: str, file: Path) -> None:
    fill(cluster)
    overwrite_ids(file)
    more = [e for i in range(300) for e in transaction(900 + 3 * i, b"id-%d" % i * 20, start_ms=i)]
    with pytest.raises(StoreLost, match="migrate --rebuild"):
        cluster.writer.apply(batch(more, read(900, 1800)), NOW_MS)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yields the directory of a mounted file system of 2 MB. Skips the test if none can be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", disk], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def remount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", disk], check=True)


@pytest.fixture
def on_disk(small_disk: Path) -> Iterator[Cluster]:
    engine = migrated(open_engine(f"sqlite:///{small_disk / 'store.db'}"))
    number = clusters.bind(engine, "orders", "kafka-orders", NOW_MS)
    held = lease.acquire(engine, number, "driver", NOW_MS)
    assert held is not None
    yield Cluster(engine, number, held, TransactionLogWriter(engine, held))
    engine.dispose()


def test_a_full_disk_stores_nothing_and_takes_the_same_batch_later(on_disk: Cluster, small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as out:
        while True:
            out.write(bytes(4096))
    before = everything(on_disk.engine, on_disk.id)
    many = [e for i in range(50) for e in transaction(3 * i, b"%d" % i * 1000, start_ms=i)]
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=r"full|disk I/O error"):
            on_disk.writer.apply(batch(many, read(0, 150)), NOW_MS)
    ballast.unlink()
    assert everything(on_disk.engine, on_disk.id) == before
    on_disk.writer.apply(batch(many, read(0, 150)), NOW_MS)
    assert counters(on_disk.engine, on_disk.id)["commits"] == 50


def test_a_read_only_disk_stores_nothing_and_takes_the_same_batch_later(on_disk: Cluster, small_disk: Path) -> None:
    """If a disk has errors, Linux may remount the disk read-only. After the disk is writable again, the refused batch
    can be applied."""
    on_disk.writer.apply(NEW, NOW_MS)
    assert counters(on_disk.engine, on_disk.id)["commits"] == 1
    on_disk.engine.dispose()
    remount(small_disk, "ro")
    more = batch(transaction(3, start_ms=1), read(3, 6))
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=r"readonly|read-only|unable to open"):
            on_disk.writer.apply(more, NOW_MS)
    remount(small_disk, "rw")
    on_disk.writer.apply(more, NOW_MS)
    assert counters(on_disk.engine, on_disk.id)["commits"] == 2

"""Tests of the rebuild of a damaged SQLite store: all rows that can be read are copied. Counting continues if the
clusters, counters and positions can be read whole."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select

from service.access.actions import Outcome
from service.domain.application_rules import Assigned
from service.domain.partitions.facts import MarkerType
from service.domain.transaction_log.facts import Gap
from service.store import clusters, lease, migrate, schema
from service.store.audit_events import Attempt
from service.store.backends.backend import Rebuilt
from service.store.engine import open_engine, open_reader
from service.store.errors import LeaseLost, StoreError, StoreReplaced, StoreUnavailable
from service.store.migrate import rebuild
from service.store.queries.applications import all_applications
from service.store.writers.applications import ApplicationWriter
from service.store.writers.transaction_log import TransactionLogWriter
from tests.helpers.damaged_pages import PAGE, overwrite, pages_of
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, batch, counters, everything, read, row, transaction

ATTEMPTS = 2_000
LOG = [entry for i in range(300) for entry in transaction(3 * i, b"id-%d" % i * 20, start_ms=i)]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Overrides the fixture that runs a test on each database: only SQLite files can be rebuilt."""
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def seeded(cluster: Cluster) -> Cluster:
    """Fills the store with 300 ids, each with one commit. Also adds ATTEMPTS attempts to the audit, so that the table
    has many pages."""
    cluster.start({0: 0})
    cluster.writer.apply(batch(LOG, read(0, 900)), NOW_MS)
    attempt = Attempt(NOW_MS, "finding" * 20, "ann", MarkerType.ABORT, "orders", 0, 7, 3, 1, 5, Outcome.WRITTEN)
    with cluster.engine.begin() as connection:
        connection.execute(
            schema.audit.insert(),
            [attempt._asdict() | {"cluster_id": cluster.id, "start_offset": n} for n in range(ATTEMPTS)],
        )
    cluster.engine.dispose()  # closing the last connection moves the WAL into the file
    return cluster


def kept(url: str) -> set[int]:
    """Returns the start offsets of the attempts in the audit. Each attempt of `seeded` has a different start offset."""
    engine = open_reader(url)
    with engine.connect() as connection:
        found = set(connection.scalars(select(schema.audit.c.start_offset)))
    engine.dispose()
    return found


def lost(rebuilt: Rebuilt) -> set[str]:
    return {table.table for table in rebuilt.tables if not table.is_whole}


def test_a_store_without_damage_is_copied_completely(seeded: Cluster, url: str, file: Path) -> None:
    before = everything(seeded.engine, seeded.id)
    seeded.engine.dispose()
    rebuilt = rebuild(url, NOW_MS)
    assert (lost(rebuilt), rebuilt.counts_go_on) == (set(), True)
    assert Path(rebuilt.old_file).name == "store.db.damaged-20260921T141320Z"
    assert not list(file.parent.glob("*.rebuilt*"))
    engine = open_engine(url)
    after = everything(engine, seeded.id)
    (position,) = after.pop("log_partitions")
    (old,) = before.pop("log_partitions")
    assert position == old | {"read_at_ms": 0}
    assert after == before
    assert kept(url) == set(range(ATTEMPTS))
    engine.dispose()


def test_only_rows_on_damaged_pages_are_lost(seeded: Cluster, url: str, file: Path) -> None:
    pages = pages_of(file, "audit")
    assert len(pages) > 20
    damaged = pages[3:5] + pages[10:11] + pages[-2:-1]
    overwrite(file, damaged)
    rebuilt = rebuild(url, NOW_MS)
    assert (lost(rebuilt), rebuilt.counts_go_on) == ({"audit"}, True)
    share = len(damaged) / len(pages)
    assert ATTEMPTS * (1 - 1.5 * share) < len(kept(url)) < ATTEMPTS
    engine = open_engine(url)
    assert counters(engine, seeded.id)["commits"] == 300
    engine.dispose()


def test_the_remaining_rows_of_a_truncated_file_are_copied(seeded: Cluster, url: str, file: Path) -> None:
    os.truncate(file, PAGE * pages_of(file, "audit")[-5])
    rebuild(url, NOW_MS)
    assert 0 < len(kept(url)) < ATTEMPTS


@pytest.mark.parametrize("pages", [[1], None])
def test_an_unreadable_file_gives_an_empty_store_at_head(
    seeded: Cluster, url: str, file: Path, pages: list[int] | None
) -> None:
    overwrite(file, pages or list(range(1, file.stat().st_size // PAGE + 1)))
    rebuilt = rebuild(url, NOW_MS)
    assert not rebuilt.counts_go_on
    assert sum(table.rows for table in rebuilt.tables) == 0
    engine = open_engine(url)
    with engine.connect() as connection:
        assert migrate.current(connection) == migrate.head()
    assert clusters.bind(engine, "orders", "kafka-orders", NOW_MS) == 1
    engine.dispose()


def again(engine: Engine, cluster: Cluster) -> Cluster:
    """Returns the cluster with a new lease, as after the next start of the job."""
    held = lease.acquire(engine, cluster.id, "another driver", NOW_MS)
    assert held is not None
    return Cluster(engine, cluster.id, held, TransactionLogWriter(engine, held))


def test_a_log_read_again_is_not_counted_twice_but_new_records_count(seeded: Cluster, url: str, file: Path) -> None:
    overwrite(file, pages_of(file, "transactional_ids")[1:3])
    rebuilt = rebuild(url, NOW_MS)
    assert (lost(rebuilt), rebuilt.counts_go_on) == ({"transactional_ids"}, True)
    engine = open_engine(url)
    cluster = again(engine, seeded)
    away = read(0, 900, generation=1, gap=Gap(900, 900, "away"), counts=False)
    cluster.writer.apply(batch(LOG, away), NOW_MS)
    assert counters(engine, cluster.id)["commits"] == 300
    assert row(engine, cluster.id, b"id-299" * 20)["state"] == row(engine, cluster.id, b"id-120" * 20)["state"]
    more = batch(transaction(900, b"id-7" * 20, start_ms=5), read(900, 903, generation=1))
    cluster.writer.apply(more, NOW_MS)
    assert counters(engine, cluster.id)["commits"] == 301
    engine.dispose()


@pytest.mark.parametrize("table", ["log_partitions", "counters"])
def test_counting_restarts_if_positions_or_counters_are_lost(seeded: Cluster, url: str, file: Path, table: str) -> None:
    overwrite(file, pages_of(file, table))
    rebuilt = rebuild(url, NOW_MS)
    assert (lost(rebuilt), rebuilt.counts_go_on) == ({table}, False)
    engine = open_engine(url)
    assert (counters(engine, seeded.id), kept(url)) == ({}, set(range(ATTEMPTS)))
    with engine.connect() as connection:
        assert connection.scalar(select(schema.clusters.c.counted_since_ms)) is None
    engine.dispose()


def test_ids_of_applications_are_counted_again(seeded: Cluster, url: str, file: Path) -> None:
    names = [entry.transactional_id for entry in LOG[::3]]
    ApplicationWriter(seeded.engine, seeded.lease).assign(dict.fromkeys(names, Assigned("shop")), NOW_MS)
    seeded.engine.dispose()
    overwrite(file, pages_of(file, "transactional_ids")[1:2])
    rebuild(url, NOW_MS)
    engine = open_engine(url)
    with engine.connect() as connection:
        (shop,) = all_applications(connection, seeded.id)
        left = connection.scalar(select(func.count()).select_from(schema.transactional_ids)) or 0
    assert 0 < shop.ids == left < len(names)
    assert shop.commits == len(names)
    engine.dispose()


def test_the_audit_of_a_cluster_that_cannot_be_read_is_kept(seeded: Cluster, url: str, file: Path) -> None:
    overwrite(file, pages_of(file, "clusters"))
    rebuilt = rebuild(url, NOW_MS)
    assert (lost(rebuilt), rebuilt.counts_go_on) == ({"clusters"}, False)
    assert kept(url) == set(range(ATTEMPTS))
    engine = open_engine(url)
    with engine.connect() as connection:
        assert connection.scalars(select(schema.clusters.c.name)).all() == [f"lost-{seeded.id}"]
    assert clusters.bind(engine, "orders", "kafka-orders", NOW_MS) == seeded.id + 1
    engine.dispose()


def test_the_previous_writer_and_lease_holder_have_to_start_again(seeded: Cluster, url: str) -> None:
    lease.renew(seeded.engine, seeded.lease, NOW_MS)
    rebuild(url, NOW_MS)
    with pytest.raises(StoreReplaced):
        lease.renew(seeded.engine, seeded.lease, NOW_MS)
    engine = open_engine(url)
    with pytest.raises(LeaseLost):
        lease.renew(engine, seeded.lease, NOW_MS)
    engine.dispose()


def test_the_new_file_has_the_same_owner_and_permissions(seeded: Cluster, url: str, file: Path) -> None:
    file.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(file, 65534, 65534)
    before = file.stat()
    rebuild(url, NOW_MS)
    after = file.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino


def test_an_older_store_is_copied_and_migrated(url: str, next_version: Callable[[], str]) -> None:
    engine = open_engine(url)
    migrate.upgrade(engine)
    clusters.bind(engine, "a", "b", NOW_MS)
    engine.dispose()
    next_version()
    rebuild(url, NOW_MS)
    engine = open_engine(url)
    with engine.connect() as connection:
        assert migrate.current(connection) == migrate.head()
        assert connection.scalars(select(schema.clusters.c.name)).all() == ["a"]
    engine.dispose()


def test_a_newer_store_is_refused_and_left_as_it_is(seeded: Cluster, url: str, file: Path) -> None:
    with seeded.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'r9999'")
    seeded.engine.dispose()
    with pytest.raises(StoreError, match="newer than this version"):
        rebuild(url, NOW_MS)
    assert [path.name for path in file.parent.iterdir()] == ["store.db"]


def test_a_file_that_is_locked_or_missing_is_refused_in_one_line(
    seeded: Cluster, url: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.store.backends.sqlite.rebuild._LOCK_WAIT_S", 0.01)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match=r"^store sqlite:.*database is locked$"):
            rebuild(url, NOW_MS)
    with pytest.raises(StoreUnavailable, match="there is no such file"):
        rebuild(f"{url}-typo", NOW_MS)
    assert [path.name for path in file.parent.iterdir()] == ["store.db"]


def test_a_rebuild_of_postgresql_is_refused_with_advice_to_restore() -> None:
    with pytest.raises(StoreError, match=r"^store postgresql.*restore a backup"):
        rebuild("postgresql://me@127.0.0.1:1/db", NOW_MS)

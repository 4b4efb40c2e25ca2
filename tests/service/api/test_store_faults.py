"""Tests of a service whose store fails. The service answers 503 in one line, is not ready, and recovers as soon as the
store recovers."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from fastapi.testclient import TestClient

from service.api.routes import resolve
from service.app import create_app
from service.store.engine import API_WAIT_S
from service.store.errors import StoreUnavailable
from service.store.migrate import rebuild
from tests.helpers.damaged_pages import PAGE, all_of, overwrite, pages_of
from tests.helpers.postgres import Postgres
from tests.helpers.resolving import ResolveApi, resolve_api
from tests.helpers.stores import NOW_MS, Id, SeededCluster
from tests.helpers.waiting import wait_until_equal

CLUSTER = "/api/v1/clusters/orders"
TRANSACTIONS = f"{CLUSTER}/transactions"


def seed(url: str) -> None:
    cluster = SeededCluster(url)
    cluster.read(Id(b"id-%d" % number * 20) for number in range(500))
    cluster.close()


@contextmanager
def client_of(url: str) -> Iterator[TestClient]:
    """Yields a client of a service with the real clock, so that answers cached for a second expire."""
    with TestClient(create_app(url, "1.2.3"), raise_server_exceptions=False) as client:
        yield client


def is_refused(client: TestClient, says: str, type_: str = "urn:txnscope:store-not-ready") -> None:
    """Checks that REST, the pages, readiness and metrics report the failure, and that the process stays healthy."""
    answer = client.get(TRANSACTIONS)
    assert (answer.status_code, answer.json()["type"]) == (503, type_), answer.text
    assert answer.headers["retry-after"] == "5"
    detail = answer.json()["detail"]
    assert re.search(says, detail), detail
    assert "\n" not in detail
    assert client.get("/clusters/orders").status_code == 503
    assert client.get("/-/ready").status_code == 503
    assert client.get("/-/healthy").status_code == 200
    wait_until_equal(lambda: exporter_up(client), 0, "kafka_txn_exporter_up")


def serves(client: TestClient) -> bool:
    for path in (TRANSACTIONS, "/-/ready"):
        answer = client.get(path)
        assert answer.status_code == 200, answer.text
    return True


def exporter_up(client: TestClient) -> float:
    """Returns the value of `kafka_txn_exporter_up`. It may be a second old, because the page of metrics is cached."""
    (up,) = re.findall(r"^kafka_txn_exporter_up (.*)$", client.get("/metrics").text, re.MULTILINE)
    return float(up)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    seed(f"sqlite:///{tmp_path / 'store.db'}")
    return tmp_path / "store.db"


@pytest.fixture
def client(file: Path) -> Iterator[TestClient]:
    with client_of(f"sqlite:///{file}?timeout=0.1") as client:
        assert serves(client)
        yield client


def test_a_deleted_file_is_not_served_and_not_created_again(client: TestClient, file: Path) -> None:
    away = file.parent / "away"
    away.mkdir()
    for path in all_of(file):
        path.rename(away / path.name)
    is_refused(client, "there is no such file")
    assert all_of(file) == []
    for path in away.iterdir():
        path.rename(file.parent / path.name)
    assert serves(client)
    wait_until_equal(lambda: exporter_up(client), 1, "kafka_txn_exporter_up")


def test_a_file_that_replaces_the_store_is_served_at_once(client: TestClient, file: Path) -> None:
    other = file.with_name("other.db")
    cluster = SeededCluster(f"sqlite:///{other}")
    cluster.read([Id(b"of the other")])
    cluster.close()
    for path in all_of(file):
        path.unlink()
    other.rename(file)
    assert [item["transactional_id"] for item in client.get(TRANSACTIONS).json()["items"]] == ["of the other"]
    assert serves(client)


def test_an_empty_file_has_no_tables(client: TestClient, file: Path) -> None:
    for path in all_of(file):
        path.unlink()
    file.touch()
    is_refused(client, "has no tables yet; the application \\(`txnscope ingest`", "urn:txnscope:store-not-migrated")
    seed(f"sqlite:///{file}")
    assert serves(client)


def test_a_damaged_page_is_reported_and_a_rebuild_repairs_the_store(file: Path) -> None:
    """Once a damaged page was read, no table is served, because even the intact tables may be incomplete."""
    overwrite(file, pages_of(file, "transactional_ids"))
    with client_of(f"sqlite:///{file}") as client:
        assert client.get("/-/ready").status_code == 200, "no damaged page was read yet"
        is_refused(client, "malformed; `txnscope migrate --rebuild`")
        assert client.get("/api/v1/clusters").status_code == 503
        rebuild(f"sqlite:///{file}", NOW_MS)
        assert serves(client)


def test_a_truncated_file_is_reported_as_damaged(file: Path) -> None:
    good = file.with_name("good.db")
    shutil.copy(file, good)
    os.truncate(file, 5 * PAGE)
    with client_of(f"sqlite:///{file}") as client:
        is_refused(client, "malformed; `txnscope migrate --rebuild`")
        file.unlink()
        good.rename(file)
        assert serves(client)


def test_a_store_of_another_version_is_refused_with_the_remedy(client: TestClient, file: Path) -> None:
    for revision, says, type_ in (
        ("r9999", "update txnscope", "urn:txnscope:store-too-new"),
        ("0001", "from before the first release.* a new one", "urn:txnscope:store-not-ready"),
    ):
        with sqlite3.connect(file) as raw:
            raw.execute("UPDATE alembic_version SET version_num = ?", (revision,))
            raw.execute("UPDATE readable_since SET revision = ?", (revision,))
        raw.close()
        is_refused(client, f"has the tables of revision {revision}.*{says}", type_)


@contextmanager
def write_lock(file: Path) -> Iterator[None]:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ResolveApi]:
    with resolve_api(f"sqlite:///{tmp_path / 'resolve.db'}", monkeypatch) as one:
        yield one


def test_a_resolve_request_waits_for_a_lock_before_it_samples(here: ResolveApi, tmp_path: Path) -> None:
    """Other writers wait for a lock for 5 s, and then fail. A resolve request waits longer, and samples the partition
    only when it has the lock."""
    with write_lock(tmp_path / "resolve.db"):
        answers: list[int] = []
        asking = threading.Thread(target=lambda: answers.append(here.execute().status_code))
        asking.start()
        with pytest.raises(StoreUnavailable, match="lock"):
            here.cluster.read()  # this writer fails, and its caller retries
        assert (answers, here.brokers.looks) == ([], 0)
    asking.join()
    assert (answers, len(here.brokers.sent)) == ([200], 1)


def test_a_resolve_request_is_refused_when_the_lock_lasts(
    here: ResolveApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert API_WAIT_S == 30
    monkeypatch.setattr(resolve, "API_WAIT_S", 0.2)
    with write_lock(tmp_path / "resolve.db"):
        answer = here.execute()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "database is locked" in answer.json()["detail"]
    assert (here.brokers.sent, here.audited()) == ([], [])
    assert here.execute().status_code == 200


@pytest.fixture
def database(own_server: Postgres) -> Iterator[str]:
    with own_server.database() as url:
        seed(url)
        yield url


def test_a_server_that_restarts_is_refused_until_it_is_back(own_server: Postgres, database: str) -> None:
    with client_of(database) as client:
        assert serves(client)
        own_server.stop()
        is_refused(client, "connection|server")
        own_server.start()
        assert serves(client)


def test_a_server_that_is_demoted_is_refused_until_one_is_promoted(own_server: Postgres, database: str) -> None:
    with client_of(database) as client:
        assert serves(client)
        own_server.stop()
        (own_server.directory / "data" / "standby.signal").touch()
        own_server.start()
        try:
            is_refused(client, "read-only|terminating connection")
            is_refused(client, "read-only")
        finally:
            own_server.execute("SELECT pg_promote()")
        assert serves(client)


def test_tables_locked_by_a_migration_are_refused_until_it_is_over(database: str) -> None:
    with client_of(f"{database}&options=-c%20lock_timeout%3D50ms") as client:
        with psycopg.connect(database) as migration:
            migration.execute("LOCK TABLE alembic_version, transactional_ids IN ACCESS EXCLUSIVE MODE")
            is_refused(client, "lock timeout")
        assert serves(client)


def test_sessions_that_the_server_ends_cause_no_failed_answer(own_server: Postgres, database: str) -> None:
    name = database.partition("?")[0].rpartition("/")[2]
    with client_of(database) as client:
        assert serves(client)
        own_server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        gone = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'"
        wait_until_equal(lambda: own_server.execute(gone), [(0,)], "number of sessions")
        assert serves(client)

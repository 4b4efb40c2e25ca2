"""Tests of error answers. Each answer is a problem document that names the mistake. An unreadable store is a server
error."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import create_engine

from service.api.http.state import Store
from service.app import create_app
from service.store.errors import StoreError
from service.store.queries.clusters import find_cluster
from service.views.addresses import encode_bytes
from tests.helpers.stores import Id, SeededCluster, client_of

CLUSTER = "/api/v1/clusters/orders"
LIST = f"{CLUSTER}/transactions"
ONE = f"{CLUSTER}/transaction"

EVERY_READER = [
    "/api/v1/clusters",
    CLUSTER,
    LIST,
    f"{ONE}?id=a",
    f"{ONE}/timeline?id=a",
    f"{ONE}/rates?id=a",
    f"{CLUSTER}/producers/7",
    f"{CLUSTER}/expiring",
    f"{CLUSTER}/coordinators",
    "/-/ready",
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    cluster = SeededCluster(f"sqlite:///{tmp_path_factory.mktemp('errors') / 'store.db'}")
    cluster.read(Id(b"id-%d" % number) for number in range(3))
    yield cluster.url
    cluster.close()


def bad(
    path: str, words: str, kind: str = "urn:txnscope:bad-parameter", status: int = 422
) -> tuple[str, int, str, str]:
    return path, status, kind, words


UNKNOWN = "urn:txnscope:unknown-parameter"
CURSOR = "urn:txnscope:bad-cursor"

BAD_INPUT = [
    bad("/api/nothing", "", "about:blank", 404),
    bad("/api/v1", "", "about:blank", 404),
    bad("/api/v1/clusters/a/b/c", "", "about:blank", 404),
    bad("/static/%2e%2e/app.py", "", "about:blank", 404),
    bad("/api/v1/clusters/nope", "no cluster 'nope'; the store knows: 'orders'", "urn:txnscope:no-such-cluster", 404),
    bad("/api/v1/clusters/nope/transactions", "no cluster 'nope'", "urn:txnscope:no-such-cluster", 404),
    bad("/api/v1/clusters/nope/transaction?id=x", "no cluster 'nope'", "urn:txnscope:no-such-cluster", 404),
    bad("/api/v1/clusters/nope/coordinators", "no cluster 'nope'", "urn:txnscope:no-such-cluster", 404),
    bad("/api/v1/clusters/%27%22%3C%00", "no cluster", "urn:txnscope:no-such-cluster", 404),
    bad(f"{ONE}?id=nope", "no transactional id 'nope'", "urn:txnscope:no-such-transactional-id", 404),
    bad(f"{ONE}?id=%00%FF", r"no transactional id '\u{0}\x{ff}'", "urn:txnscope:no-such-transactional-id", 404),
    bad(f"{ONE}?id_b64=", "no transactional id ''", "urn:txnscope:no-such-transactional-id", 404),
    bad(ONE, "exactly one of id and id_b64"),
    bad(f"{ONE}?id=a&id_b64=YQ", "exactly one of id and id_b64"),
    bad(f"{ONE}?id_b64=!", "not base64url"),
    bad(f"{ONE}?id_b64=YQ%00", "not base64url"),
    bad(f"{ONE}?id=a&id=b", "given more than once: id"),
    bad("/api/v1/clusters?q=5", "unknown query parameter 'q'; known parameters: cursor, limit", UNKNOWN),
    bad(f"{CLUSTER}?limit=5", "unknown query parameter 'limit'; known parameters: none", UNKNOWN),
    bad(f"{CLUSTER}?x=1&y=2", "unknown query parameters 'x', 'y'", UNKNOWN),
    bad(f"{LIST}?stat=Ongoing", "'stat'; known parameters: application, cursor, limit, min_age, prefix", UNKNOWN),
    bad(f"{LIST}?=", "unknown query parameter ''", UNKNOWN),
    bad(f"{CLUSTER}/coordinators?sort=age", "'sort'", UNKNOWN),
    bad("/api/v1/clusters/nope/transaction/timeline?id=x", "no cluster 'nope'", "urn:txnscope:no-such-cluster", 404),
    bad("/api/v1/clusters/nope/producers/7", "no cluster 'nope'", "urn:txnscope:no-such-cluster", 404),
    bad("/api/v1/clusters/nope/expiring", "no cluster 'nope'", "urn:txnscope:no-such-cluster", 404),
    bad(f"{ONE}/timeline?id=nope", "no transactional id 'nope'", "urn:txnscope:no-such-transactional-id", 404),
    bad(f"{ONE}/rates?id_b64=_w", r"no transactional id '\x{ff}'", "urn:txnscope:no-such-transactional-id", 404),
    bad(f"{ONE}/timeline", "exactly one of id and id_b64"),
    bad(f"{ONE}/timeline?id=id-1&order=asc", "'order'; known parameters: cursor, id, id_b64, limit", UNKNOWN),
    bad(f"{ONE}/rates?id=id-1&window=8d", "window: '8d' is longer than 7d, the maximum"),
    bad(f"{ONE}/rates?id=id-1&window=169h", "longer than 7d"),
    bad(f"{ONE}/rates?id=id-1&window=hour", "'hour' is no duration"),
    bad(f"{CLUSTER}/producers/x", "producer_id: Input should be a valid integer"),
    bad(f"{CLUSTER}/producers/-1", "producer_id: Input should be greater than or equal to 0"),
    bad(f"{CLUSTER}/producers/9223372036854775808", "producer_id: Input should be less than"),
    bad(f"{CLUSTER}/producers/7?epoch=1", "'epoch'; known parameters: cursor, limit", UNKNOWN),
    bad(f"{CLUSTER}/producers/7", "no transactional id with producer id 7", "urn:txnscope:no-such-producer-id", 404),
    bad(f"{CLUSTER}/expiring?within=soon", "'soon' is no duration"),
    bad(f"{CLUSTER}/expiring?state=Empty", "'state'; known parameters: application, cursor, limit, within", UNKNOWN),
    bad(f"{LIST}?state=ongoing", "Input should be 'Empty', 'Ongoing'"),
    bad(f"{LIST}?state=", "Input should be 'Empty', 'Ongoing'"),
    bad(f"{LIST}?sort=size", "'age', 'transactional_id' or 'last_updated'"),
    bad(f"{LIST}?limit=0", "limit: Input should be greater than or equal to 1"),
    bad(f"{LIST}?limit=5&limit=6", "given more than once: limit"),
    bad(f"{LIST}?min_age=5", "'5' is no duration like 90s, 15m, 24h or 7d"),
    bad(f"{LIST}?min_age=-5m", "'-5m' is no duration"),
    bad(f"{LIST}?min_age=1.5h", "'1.5h' is no duration"),
    bad(f"{LIST}?min_age=%D9%A3m", "is no duration"),
    bad(f"{LIST}?min_age=9999999999d", "is no duration"),
    bad(f"{LIST}?producer_id=x", "producer_id: Input should be a valid integer"),
    bad(f"{LIST}?producer_id=-1", "producer_id: Input should be greater than or equal to 0"),
    bad(f"{LIST}?producer_id=9223372036854775808", "producer_id: Input should be less than"),
    bad(f"{LIST}?topic={'t' * 250}", "topic: String should have at most 249 characters"),
    bad(f"{LIST}?q={'q' * 1001}", "q: String should have at most 1000 characters"),
    bad(f"{LIST}?cursor=nonsense", "this API did not make the cursor", CURSOR, 400),
    bad(f"{LIST}?cursor={encode_bytes(bytes(30))}", "other filters or another sort", CURSOR, 400),
]


@pytest.mark.parametrize(("path", "status", "kind", "words"), BAD_INPUT, ids=lambda value: str(value)[:60])
def test_bad_input_is_a_problem_document(client: TestClient, path: str, status: int, kind: str, words: str) -> None:
    response = client.get(path)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-content-type-options"] == "nosniff"
    problem = response.json()
    assert (problem["type"], problem["status"]) == (kind, status)
    assert problem["title"]
    assert problem["instance"].startswith("/")
    assert words in problem.get("detail", "")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/api/v1/clusters", "/metrics", "/-/ready", LIST])
def test_a_read_only_path_refuses_writing_methods(client: TestClient, method: str, path: str) -> None:
    response = client.request(method, path)
    assert response.status_code == 405
    assert "GET" in response.headers["allow"]
    assert response.json()["title"] == "Method Not Allowed"


@pytest.mark.parametrize(
    "change", ["state=Empty", "prefix=i", "min_age=1s", "producer_id=1000", "topic=t", "q=i", "sort=transactional_id"]
)
def test_a_cursor_serves_only_the_filters_it_came_with(client: TestClient, change: str) -> None:
    cursor = client.get(f"{LIST}?limit=1").json()["next_cursor"]
    refused = client.get(f"{LIST}?limit=1&{change}&cursor={cursor}")
    assert (refused.status_code, refused.json()["type"]) == (400, CURSOR)
    assert client.get(f"{LIST}?limit=200&cursor={cursor}").status_code == 200, (
        "a cursor is valid with another limit, too"
    )


def test_a_cursor_serves_only_the_cluster_it_came_from(client: TestClient, store: str) -> None:
    other = SeededCluster(store, "other")
    cursor = client.get(f"{LIST}?limit=1").json()["next_cursor"]
    refused = client.get(f"/api/v1/clusters/other/transactions?limit=1&cursor={cursor}")
    other.close()
    assert refused.status_code == 400


@pytest.mark.parametrize("path", EVERY_READER)
def test_a_missing_store_is_not_ready_and_no_file_is_created(tmp_path: Path, path: str) -> None:
    with client_of(f"sqlite:///{tmp_path / 'typo.db'}") as client:
        response = client.get(path)
    problem = response.json()
    assert (response.status_code, problem["type"]) == (503, "urn:txnscope:store-not-ready")
    assert "there is no such file; the application (`txnscope ingest`" in problem["detail"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", EVERY_READER)
def test_a_store_without_tables_is_not_ready(tmp_path: Path, path: str) -> None:
    (tmp_path / "new.db").touch()
    with client_of(f"sqlite:///{tmp_path / 'new.db'}") as client:
        response = client.get(path)
        assert client.get("/-/healthy").status_code == 200
        assert client.get("/version").json() == {"name": "txnscope", "version": "1.2.3"}
    problem = response.json()
    assert (response.status_code, problem["type"]) == (503, "urn:txnscope:store-not-migrated")
    assert response.headers["retry-after"] == "5"
    assert "has no tables yet; the application (`txnscope ingest`" in problem["detail"]


def test_a_store_that_gets_its_tables_is_served_without_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    with client_of(url) as client:
        assert client.get("/-/ready").status_code == 503
        SeededCluster(url).close()
        assert client.get("/-/ready").text == "OK\n"
        assert client.get(CLUSTER).status_code == 200


def test_a_first_request_needs_one_connection(store: str) -> None:
    """If each first request held one connection and needed a second from the pool, concurrent requests would block each
    other until the pool times out."""
    engine = create_engine(store, pool_size=1, max_overflow=0, pool_timeout=0.1)
    Store(engine).check()
    engine.dispose()


def test_a_store_of_another_version_is_refused_at_once(tmp_path: Path) -> None:
    cluster = SeededCluster(f"sqlite:///{tmp_path / 'store.db'}")
    with client_of(cluster.url) as client:
        assert client.get(CLUSTER).status_code == 200
        with cluster.engine.begin() as connection:
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'future'")
            connection.exec_driver_sql("UPDATE readable_since SET revision = 'future'")
        response = client.get(CLUSTER)
    cluster.close()
    assert response.status_code == 503
    assert "has the tables of revision future: it is newer than this version" in response.json()["detail"]


@pytest.mark.parametrize("path", EVERY_READER)
def test_a_locked_store_is_a_server_error(tmp_path: Path, path: str) -> None:
    file = tmp_path / "store.db"
    SeededCluster(f"sqlite:///{file}").close()
    locking = sqlite3.connect(file, isolation_level=None)
    locking.execute("PRAGMA locking_mode = EXCLUSIVE")
    locking.execute("BEGIN EXCLUSIVE")
    try:
        with client_of(f"sqlite:///{file}?timeout=0.01") as client:
            response = client.get(path)
    finally:
        locking.close()
    assert response.status_code == 503
    assert response.headers["retry-after"] == "5"
    assert "locked" in response.json()["detail"]


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    file.write_bytes(b"this is no database, whatever its name says" * 100)
    with client_of(f"sqlite:///{file}") as client:
        response = client.get(CLUSTER)
    assert response.status_code == 503
    assert "not a database" in response.json()["detail"]


def test_a_url_that_is_no_store_is_refused_before_anything_is_served() -> None:
    with pytest.raises(StoreError, match="neither sqlite"):
        create_app("mysql://host/database")


def test_an_internal_error_is_500_without_its_details(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(f"{find_cluster.__module__}.find_cluster", broken)
    with client_of(store) as client:
        response = client.get(CLUSTER)
    assert response.status_code == 500
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["content-security-policy"].startswith("default-src 'self'")
    assert response.json()["title"] == "Internal Server Error"
    assert "secret" not in response.text

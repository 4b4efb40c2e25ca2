"""HEAD on everything that GET answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.helpers.stores import Id, SeededCluster, client_of

CLUSTER = "/api/v1/clusters/orders"
NAMES = {"cluster": "orders", "producer_id": "7", "finding": "none", "topic": "t", "partition": "0", "offset": "0"}
STREAMS = ("/api/v1/events",)
"""GET does not end; what HEAD does is tried over sockets, in test_api_process."""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    cluster = SeededCluster(f"sqlite:///{tmp_path / 'store.db'}")
    cluster.read([Id(b"a")])
    with client_of(cluster.url) as client:
        yield client
    cluster.close()


def test_every_route_answers_head_with_the_headers_of_get(client: TestClient) -> None:
    paths = [path.format(**NAMES) for path in client.get("/openapi.json").json()["paths"] if path not in STREAMS]
    assert {"/-/healthy", f"{CLUSTER}/transactions"} <= set(paths)
    for path in [*paths, "/", "/openapi.json", "/static/icon.svg", f"{CLUSTER}/transaction?id=a", "/nothing"]:
        got, headed = client.get(path), client.head(path)
        assert headed.status_code == got.status_code, path
        moving = {"content-length"} if path == "/metrics" else set()
        assert {k: v for k, v in headed.headers.items() if k not in moving} == {
            k: v for k, v in got.headers.items() if k not in moving
        }, path
        assert headed.content == b""


def test_a_known_etag_is_304_also_to_head(client: TestClient) -> None:
    etag = client.head(CLUSTER).headers["etag"]
    assert client.head(CLUSTER, headers={"If-None-Match": etag}).status_code == 304


def test_heads_are_counted_as_such_and_not_described(client: TestClient) -> None:
    client.head("/-/healthy")
    client.head("/wp-admin/setup.php")
    page = client.get("/metrics").text
    assert 'http_requests_total{method="HEAD",route="/-/healthy",status="200"} 1.0\n' in page
    assert 'http_requests_total{method="HEAD",route="(none)",status="404"} 1.0\n' in page
    for path in client.get("/openapi.json").json()["paths"].values():
        assert "head" not in path

"""The offsets of a partition where there is no Kafka to ask; what a broker answers is in the integration tests."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from service.app import create_app
from service.kafka.settings import ClientSettings
from tests.helpers.stores import Id, SeededCluster, client_of

PATH = "/api/v1/clusters/orders/partitions/t/0/offsets/7"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    cluster = SeededCluster(f"sqlite:///{tmp_path_factory.mktemp('offsets') / 'store.db'}")
    cluster.read([Id(b"a")])
    yield cluster.url
    cluster.close()


def test_without_brokers_it_says_so_and_no_retry_helps(store: str) -> None:
    with client_of(store) as client:
        answer = client.get(PATH)
        assert client.get("/-/ready").status_code == 200
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:txnscope:no-brokers")
    assert answer.json()["detail"] == (
        "no brokers configured: this request needs Kafka, start the service with --bootstrap-servers"
    )
    assert "Retry-After" not in answer.headers


def test_brokers_that_do_not_answer_may_answer_later(store: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    kafka = ClientSettings.load(f"127.0.0.1:{port}", None)
    with TestClient(create_app(store, "1.2.3", kafka)) as client:
        answer = client.get(PATH)
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:txnscope:kafka-unavailable")
    assert answer.json()["detail"].startswith(f"127.0.0.1:{port} does not answer")
    assert int(answer.headers["Retry-After"]) > 0


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        (PATH.replace("orders", "nope"), 404, "no-such-cluster"),
        (PATH + "?to=7", 422, "bad-parameter"),
        (PATH + "?to=many", 422, "bad-parameter"),
        (PATH + "?until=9", 422, "unknown-parameter"),
        (PATH.replace("/7", "/-1"), 422, "bad-parameter"),
        (PATH.replace("/0/", "/x/"), 422, "bad-parameter"),
        (PATH.replace("/7", "/9223372036854775807"), 422, "bad-parameter"),
    ],
)
def test_what_cannot_be_asked_is_a_problem_before_kafka_is_asked(store: str, path: str, status: int, kind: str) -> None:
    with client_of(store) as client:
        answer = client.get(path)
    assert (answer.status_code, answer.json()["type"]) == (status, f"urn:txnscope:{kind}")

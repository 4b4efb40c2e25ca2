"""Tests of REST requests that need Kafka: without brokers, with unresponsive brokers, and in a queue.

Requests that write markers, and requests for health and metrics, bypass the queue.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from service.api.http import kafka
from service.api.http.kafka import MOST_AT_ONCE, Kafka
from service.app import create_app
from service.kafka.errors import KafkaUnavailable
from service.kafka.settings import Clients, ClientSettings
from tests.helpers.findings import WithFindings, observe
from tests.helpers.servers import Served, serving
from tests.helpers.stores import client_of
from tests.helpers.waiting import ANSWER_S, LIMIT_S, wait_for, wait_until

EXPLAIN = "/api/v1/clusters/orders/partitions/orders/0/offsets/5"
KEY = "0123456789abcdef"


@dataclass(frozen=True, slots=True)
class SilentBroker:
    """A broker that accepts connections and never answers."""

    address: str
    served: Served

    @property
    def accepted(self) -> int:
        return self.served.accepted


@pytest.fixture
def silent() -> Iterator[SilentBroker]:
    served = Served(is_silent=True)
    with serving(served) as address:
        yield SilentBroker(address, served)


@pytest.fixture
def client(silent: SilentBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setattr(kafka, "_TURN_S", 1.0)
    cluster = WithFindings(f"sqlite:///{tmp_path}/store.db")
    cluster.read()
    cluster.see(observe())
    app = create_app(cluster.url, "1.2.3", ClientSettings.load(silent.address, None), {"ann": KEY})
    with TestClient(app) as client:
        yield client
    cluster.close()


def test_requests_to_kafka_wait_in_a_bounded_queue_and_health_never_waits(
    client: TestClient, silent: SilentBroker
) -> None:
    with ThreadPoolExecutor(60) as threads:
        asked = [threads.submit(client.get, EXPLAIN) for _ in range(60)]
        wait_until(lambda: silent.accepted, lambda number: number > 0, "a connection to the broker")
        answered = 0
        while wait(asked, timeout=0.05).not_done:
            assert client.get("/-/ready").status_code == 200
            assert client.get("/metrics").status_code == 200
            answered += any(not future.done() for future in asked)
        answers = [future.result(LIMIT_S) for future in asked]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) >= 60 - 3 * MOST_AT_ONCE, "most requests are refused at once"
    assert {answer.headers["retry-after"] for answer in refused} == {"5"}
    assert {answer.status_code for answer in answers} == {429, 503}
    assert "already use Kafka or wait for it" in refused[0].json()["detail"]
    assert answered > 0, "health and metrics answer while other requests wait"


def test_a_marker_does_not_wait_for_reading_requests(client: TestClient) -> None:
    state = client.app.state.txnscope  # type: ignore[attr-defined]
    (finding,) = client.get("/api/v1/clusters/orders/findings").json()["items"]
    resolve = f"/api/v1/clusters/orders/findings/{finding['id']}/resolve"
    with ThreadPoolExecutor(2) as threads:
        question = threads.submit(client.get, EXPLAIN)
        wait_for(state.kafka._other._turn.locked, "the request to have its turn to ask Kafka")
        marker = threads.submit(client.post, resolve, json={}, headers={"Authorization": f"Bearer {KEY}"})
        wait_for(state.remediation_kafka._other._turn.locked, "the marker to have its turn to ask Kafka")
        assert state.kafka._other._turn.locked(), "the other request still waits for its answer"
        assert question.result(ANSWER_S).status_code == marker.result(ANSWER_S).status_code == 503


def test_markers_are_written_with_the_settings_for_writing(silent: SilentBroker, tmp_path: Path) -> None:
    cluster = WithFindings(f"sqlite:///{tmp_path}/other.db")
    cluster.read()
    cluster.see(observe())
    asks = ClientSettings.load("127.0.0.1:1", None)
    writes = Clients(ClientSettings.load(silent.address, None), {})
    app = create_app(cluster.url, "1.2.3", asks, {"ann": KEY}, remediation=writes)
    with TestClient(app) as client, ThreadPoolExecutor(1) as threads:
        assert client.get(EXPLAIN).status_code == 503
        assert silent.accepted == 0
        (finding,) = client.get("/api/v1/clusters/orders/findings").json()["items"]
        resolve = f"/api/v1/clusters/orders/findings/{finding['id']}/resolve"
        marker = threads.submit(client.post, resolve, json={}, headers={"Authorization": f"Bearer {KEY}"})
        wait_until(lambda: silent.accepted, lambda number: number > 0, "a connection for the marker")
        assert marker.result(ANSWER_S).status_code == 503
    cluster.close()


def test_a_failed_request_frees_its_place_in_the_queue(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KafkaUnavailable("the broker is gone")

    monkeypatch.setattr(Kafka, "_connected", fail)
    answers = [client.get(EXPLAIN) for _ in range(MOST_AT_ONCE + 1)]
    assert {answer.status_code for answer in answers} == {503}
    assert answers[-1].json()["detail"] == "the broker is gone"


PATH = "/api/v1/clusters/orders/partitions/t/0/offsets/7"


def test_without_brokers_a_request_is_refused_without_retry_after(store: str) -> None:
    with client_of(store) as client:
        answer = client.get(PATH)
        assert client.get("/-/ready").status_code == 200
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:txnscope:no-brokers")
    assert answer.json()["detail"] == (
        "this request needs Kafka, but no brokers are configured; start the service with --bootstrap-servers"
    )
    assert "Retry-After" not in answer.headers


def test_brokers_that_do_not_answer_are_a_503(store: str) -> None:
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
def test_a_bad_request_is_a_problem_document_before_kafka_is_asked(
    store: str, path: str, status: int, kind: str
) -> None:
    with client_of(store) as client:
        answer = client.get(path)
    assert (answer.status_code, answer.json()["type"]) == (status, f"urn:txnscope:{kind}")

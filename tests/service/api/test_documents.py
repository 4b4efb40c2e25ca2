"""Tests of the OpenAPI document, which all answers must match, and of /metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pydantic import TypeAdapter

from service.api.schemas import partitions as schemas
from service.api.schemas.clusters import Cluster, Coordinators
from service.api.schemas.findings import Findings
from service.api.schemas.history import ProducerOwners, Timeline, TransactionRates
from service.api.schemas.partitions import Markers, OnePartition, Partitions
from service.api.schemas.shape import Shape
from service.api.schemas.transactions import OneTransaction, Transactions
from service.domain.partitions.ledger import LedgerBatch, Marker, TopicRange, Volume
from service.domain.transaction_log import states
from service.store.writers.partitions import LedgerWriter
from tests.helpers.openapi_document import DOCUMENT, declared_version, document
from tests.helpers.stores import INT64_MAX, Id, SeededCluster, client_of, open_id
from tests.service.api.answers import with_everything
from tests.service.store.histories import MINUTE
from tests.service.store.logs import read

HOME = "/api/v1/clusters/o%22%3E%3Ci%3E%26"
SCRIPT = b"<script>alert(1)</script>"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    cluster = with_everything(f"sqlite:///{tmp_path / 'store.db'}", 'o"><i>&', open_id(SCRIPT, 86_400_000))
    markers = Marker("tailed", 0, 0, INT64_MAX - 1, INT64_MAX, 3, 1, True, INT64_MAX)
    volume = Volume("tailed", 0, MINUTE, 3, INT64_MAX, 1, 1, 0)
    tailed = LedgerBatch((TopicRange("tailed", read(0, 3, asked_at_ms=MINUTE)),), (volume,), (markers,))
    LedgerWriter(cluster.engine, cluster.lease).apply(tailed, MINUTE)
    with client_of(cluster.url) as client:
        yield client
    cluster.close()


def spelt(body: Any) -> Iterator[tuple[str, int | None, str | None]]:
    """Yields (key, value, text) for every integer field at any depth. `value`: the integer if it is beyond ±2^53, where
    a double may round it; else None. `text`: the content of the field `<key>_str`, or None."""
    if isinstance(body, dict):
        for key, item in body.items():
            if isinstance(item, int):
                yield key, item if abs(item) > 2**53 else None, body.get(f"{key}_str")
    for item in body.values() if isinstance(body, dict) else body if isinstance(body, list) else ():
        yield from spelt(item)


ANSWERS: list[tuple[str, type[Shape], set[str]]] = [
    ("", Cluster, set()),
    ("/transactions?limit=200&state=Expired&state=Ongoing&state=CompleteCommit", Transactions, {"producer_id"}),
    ("/transaction?id=wide", OneTransaction, {"producer_id"}),
    ("/coordinators", Coordinators, set()),
    ("/transaction/timeline?id=lived", Timeline, {"producer_id"}),
    ("/transaction/rates?id=lived", TransactionRates, set()),
    ("/producers/9223372036854775807", ProducerOwners, set()),
    ("/expiring?within=7d", Transactions, {"producer_id"}),
    ("/partitions", Partitions, {"producer_id"}),
    ("/partitions/orders/0", OnePartition, {"producer_id"}),
    ("/partitions/tailed/0/markers", Markers, {"offset", "producer_id"}),
    ("/partitions/tailed/0/volume", schemas.Volume, {"bytes"}),
    ("/hanging", Findings, {"producer_id"}),
]
"""The tested answers: (path below a cluster, type of the body, fields with numbers that a double cannot represent)."""


@pytest.mark.parametrize(("path", "kind", "wide"), ANSWERS)
def test_answers_are_valid_for_their_documented_types(
    client: TestClient, path: str, kind: type[Shape], wide: set[str]
) -> None:
    """Validation is strict. mypy checks that the routes build these types."""
    TypeAdapter(kind).validate_json(client.get(f"{HOME}{path}").content, strict=True)


@pytest.mark.parametrize(("path", "kind", "wide"), ANSWERS)
def test_numbers_that_no_double_can_hold_have_digits_as_text(
    client: TestClient, path: str, kind: type[Shape], wide: set[str]
) -> None:
    """If a double can represent a number, the answer has no digits as text."""
    found = list(spelt(client.get(f"{HOME}{path}").json()))
    assert all(text == (None if number is None else str(number)) for _, number, text in found)
    assert {key for key, number, _ in found if number is not None and not key.endswith("_raw_ms")} == wide


def test_openapi_names_every_operation_and_defines_every_reference(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    assert document["info"]["version"] == "1.2.3"
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert sorted(names) == [
        "acknowledgeFinding",
        "endMute",
        "explainOffsets",
        "getApplication",
        "getCanary",
        "getCluster",
        "getFinding",
        "getHealthy",
        "getMetrics",
        "getPartition",
        "getReady",
        "getTimeline",
        "getTransaction",
        "getTransactionRates",
        "getVersion",
        "getVolume",
        "listApplications",
        "listAudit",
        "listClusters",
        "listCoordinators",
        "listExpiring",
        "listFindings",
        "listGroups",
        "listHanging",
        "listMarkers",
        "listMutes",
        "listNotifications",
        "listPartitions",
        "listProducerOwners",
        "listTransactions",
        "resolveFinding",
        "setMute",
        "streamEvents",
    ]
    assert all(operation["description"] for operation in operations)
    references = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert references <= set(document["components"]["schemas"])
    assert "HTTPValidationError" not in references


def test_openapi_declares_the_problems_of_each_operation(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    for path, statuses in {
        "/api/v1/clusters": {"400", "422", "503"},
        "/api/v1/clusters/{cluster}": {"404", "422", "503"},
        "/api/v1/clusters/{cluster}/transactions": {"400", "404", "422", "503"},
        "/api/v1/clusters/{cluster}/transaction": {"404", "422", "503"},
        "/api/v1/clusters/{cluster}/coordinators": {"400", "404", "422", "503"},
        "/api/v1/clusters/{cluster}/transaction/timeline": {"400", "404", "422", "503"},
        "/api/v1/clusters/{cluster}/transaction/rates": {"400", "404", "422", "503"},
        "/api/v1/clusters/{cluster}/producers/{producer_id}": {"400", "404", "422", "503"},
        "/api/v1/clusters/{cluster}/expiring": {"400", "404", "422", "503"},
        "/api/v1/clusters/{cluster}/groups": {"400", "404", "422", "503"},
        "/api/v1/clusters/{cluster}/partitions": {"400", "404", "422", "503"},
        "/api/v1/clusters/{cluster}/partitions/{topic}/{partition}": {"404", "422", "503"},
        "/api/v1/clusters/{cluster}/hanging": {"400", "404", "422", "503"},
        "/-/ready": {"503"},
    }.items():
        responses = document["paths"][path]["get"]["responses"]
        asked_who = set() if path == "/-/ready" else {"401", "403", "429"}
        assert set(responses) == {"200", "421", *statuses, *asked_who}, path
        for status in statuses:
            schema = responses[status]["content"]["application/problem+json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/Problem"}


def test_openapi_describes_the_filters(client: TestClient) -> None:
    operation = client.get("/openapi.json").json()["paths"]["/api/v1/clusters/{cluster}/transactions"]["get"]
    schemas = {parameter["name"]: parameter["schema"] for parameter in operation["parameters"]}
    said = {"title": "Limit", "description": "Maximum number of items in the page."}
    assert schemas["limit"] == {"type": "integer", "minimum": 1, "maximum": 200, "default": 50, **said}
    assert set(schemas) == {
        "cluster",
        "state",
        "prefix",
        "min_age",
        "producer_id",
        "topic",
        "application",
        "q",
        "sort",
        "limit",
        "cursor",
    }
    assert "^[0-9]{1,9}[smhd]$" in str(schemas["min_age"])
    assert all(name in str(schemas["state"]) for name in states.NAMES.values())


def test_metrics_are_served_in_the_requested_format(client: TestClient) -> None:
    plain = client.get("/metrics", headers={"Accept-Encoding": "identity"})
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'kafka_txn_transactions{cluster="o\\"><i>&",state="Ongoing"}' in plain.text
    wanted = {"Accept": "application/openmetrics-text; version=1.0.0", "Accept-Encoding": "gzip"}
    open_metrics = client.get("/metrics?collect[]=x", headers=wanted)
    assert open_metrics.headers["content-type"].startswith("application/openmetrics-text")
    assert open_metrics.headers["content-encoding"] == "gzip"
    assert open_metrics.text.endswith("# EOF\n")


def test_requests_are_counted_by_route(client: TestClient) -> None:
    client.get("/api/v1/clusters/nope")
    page = client.get("/metrics").text
    (line,) = [line for line in page.splitlines() if '/clusters/{cluster}"' in line and 'status="404"' in line]
    assert line.endswith(" 1.0")


def test_the_committed_document_equals_that_of_the_routes() -> None:
    assert DOCUMENT.read_text("utf-8") == document(), "out of date, run python -m tests.helpers.openapi_document"


def test_the_service_serves_the_committed_document(tmp_path: Path) -> None:
    cluster = SeededCluster(f"sqlite:///{tmp_path / 'store.db'}")
    with client_of(cluster.url) as client:
        served = client.get("/openapi.json").json()
    cluster.close()
    served["info"]["version"] = declared_version()
    assert served == json.loads(DOCUMENT.read_text("utf-8"))


def test_an_optional_parameter_is_not_nullable() -> None:
    """A query cannot contain null: `?min_age=null` would be the string "null"."""
    paths = json.loads(DOCUMENT.read_text("utf-8"))["paths"].values()
    parameters = [one for path in paths for operation in path.values() for one in operation.get("parameters", ())]
    assert {parameter["name"] for parameter in parameters if not parameter.get("required")} > {
        "min_age",
        "lagging",
        "last-event-id",
    }
    assert not [parameter for parameter in parameters if "null" in str(parameter["schema"])]


@pytest.mark.parametrize("path", ["partitions?lagging", "groups?blocked"])
def test_a_boolean_parameter_takes_only_true_and_false(tmp_path: Path, path: str) -> None:
    cluster = SeededCluster(f"sqlite:///{tmp_path / 'store.db'}")
    with client_of(cluster.url) as client:
        answers = {
            text: client.get(f"/api/v1/clusters/orders/{path}={text}") for text in ("true", "false", "yes", "1", "")
        }
    cluster.close()
    assert {text: answer.status_code for text, answer in answers.items()} == {
        "true": 200,
        "false": 200,
        "yes": 422,
        "1": 422,
        "": 422,
    }
    (error,) = answers["yes"].json()["errors"]
    assert error["message"].endswith("neither true nor false")


CLUSTER = "/api/v1/clusters/orders"
NAMES = {
    "cluster": "orders",
    "producer_id": "7",
    "finding": "none",
    "topic": "t",
    "partition": "0",
    "offset": "0",
    "name": "a",
}
STREAMS = ("/api/v1/events",)
"""Paths of streams, which the test of HEAD leaves out: the test compares HEAD with GET, and a GET of a stream does not
end. tests/service/api/test_process.py tests HEAD of a stream over a socket."""


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[TestClient]:
    cluster = SeededCluster(f"sqlite:///{tmp_path / 'store.db'}")
    cluster.read([Id(b"a")])
    with client_of(cluster.url) as orders:
        yield orders
    cluster.close()


def test_every_route_answers_head_with_the_headers_of_get(orders: TestClient) -> None:
    paths = [path.format(**NAMES) for path in orders.get("/openapi.json").json()["paths"] if path not in STREAMS]
    assert {"/-/healthy", f"{CLUSTER}/transactions"} <= set(paths)
    for path in [*paths, "/", "/openapi.json", "/static/icon.svg", f"{CLUSTER}/transaction?id=a", "/nothing"]:
        got, headed = orders.get(path), orders.head(path)
        assert headed.status_code == got.status_code, path
        moving = {"content-length"} if path == "/metrics" else set()
        assert {k: v for k, v in headed.headers.items() if k not in moving} == {
            k: v for k, v in got.headers.items() if k not in moving
        }, path
        assert headed.content == b""


def test_head_with_a_known_etag_is_304(orders: TestClient) -> None:
    etag = orders.head(CLUSTER).headers["etag"]
    assert orders.head(CLUSTER, headers={"If-None-Match": etag}).status_code == 304


def test_head_requests_are_counted_but_not_documented(orders: TestClient) -> None:
    orders.head("/-/healthy")
    orders.head("/wp-admin/setup.php")
    page = orders.get("/metrics").text
    assert 'http_requests_total{method="HEAD",route="/-/healthy",status="200"} 1.0\n' in page
    assert 'http_requests_total{method="HEAD",route="(none)",status="404"} 1.0\n' in page
    for path in orders.get("/openapi.json").json()["paths"].values():
        assert "head" not in path


def test_every_schema_of_the_document_is_used() -> None:
    text = document()
    names = json.loads(text)["components"]["schemas"]
    assert [name for name in names if f'"#/components/schemas/{name}"' not in text] == []

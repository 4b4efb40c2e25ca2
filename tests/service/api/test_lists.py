"""Tests that every list of the API takes `limit` and `cursor` with the same bounds, and that all answers have the same
shape."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.access.actions import Action, Outcome
from service.app import create_app
from service.domain.application_rules import Assigned
from service.domain.findings.kinds import Kind
from service.domain.partitions.group_offsets import GroupOffset
from service.domain.partitions.ledger import LedgerBatch, Marker, TopicRange, Volume
from service.store import finding_marks, receivers
from service.store.audit_events import AuditEvent
from service.store.finding_marks import Wish
from service.store.writers.applications import ApplicationWriter
from service.store.writers.groups import GroupWriter
from service.store.writers.partitions import LedgerWriter
from service.views.addresses import encode_bytes
from tests.helpers.findings import observe
from tests.helpers.partitions import LSO, WithPartitions, entry, hanging_finding, stalled_partition
from tests.helpers.partitions import read as read_of
from tests.helpers.stores import NOW, NOW_MS, SeededCluster
from tests.service.api.answers import get, pages
from tests.service.store.histories import MINUTE, aborted, committed
from tests.service.store.logs import batch, read

NO_STORE = "sqlite:///never-read.db"
PID = 7
QUERIES = {"/transaction/timeline": "id=pay", "/transaction/rates": "id=pay", "/expiring": "within=7d"}
PLACES = {"cluster": "orders", "topic": "orders", "partition": "0", "producer_id": str(PID)}


def _routes() -> dict[str, Any]:
    """Returns a mapping from path to the route that answers with JSON documents. If several such routes have the same
    path, the last one counts."""
    routers = [router for router in create_app(NO_STORE).routes if hasattr(router, "effective_route_contexts")]
    routes = [route for router in routers for route in router.effective_route_contexts()]
    return {route.path: route for route in routes if route.response_model is not None}


ROUTES = _routes()
LISTS = {
    path: route
    for path, route in ROUTES.items()
    if "items" in getattr(route.response_model, "__dataclass_fields__", ())
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yields the URL of a store in which every list has at least two items."""
    url = f"sqlite:///{tmp_path_factory.mktemp('lists') / 'store.db'}"
    others = [SeededCluster(url, name) for name in ("payments", "billing")]
    cluster = WithPartitions(url, partitions=3)
    log = [*committed(0, MINUTE - 240_000, pid=PID), *aborted(3, MINUTE - 60_000, pid=PID)]
    log += [*committed(6, MINUTE - 120_000, b"former", pid=PID), *committed(9, MINUTE, b"oldest", pid=PID)]
    cluster.writer.apply(batch(log, read(0, len(log))), NOW_MS)
    named = {one: Assigned(f"application-{one.decode()}") for one in (b"pay", b"former", b"oldest")}
    ApplicationWriter(cluster.engine, cluster.lease).assign(named, NOW_MS)
    cluster.look(stalled_partition(), stalled_partition(1), read_of(entry()))
    cluster.see(hanging_finding(), hanging_finding(1), observe(Kind.OVERDUE))
    seen = [GroupOffset(name, "orders", 0, LSO - 5, 2, False) for name in ("a", "b", "c")]
    GroupWriter(cluster.engine, cluster.lease).replace(seen, NOW_MS)
    markers = tuple(Marker("orders", 0, 0, offset, PID, 3, 5, True, NOW_MS) for offset in range(3))
    volumes = tuple(Volume("orders", 0, MINUTE - 60_000 * number, 3, 300, 1, 1, 0) for number in range(3))
    tailed = TopicRange("orders", read(0, 3, asked_at_ms=NOW_MS))
    LedgerWriter(cluster.engine, cluster.lease).apply(LedgerBatch((tailed,), volumes, markers), NOW_MS)
    done = AuditEvent(NOW_MS, Action.MUTE, Outcome.SET, "ann", "10.0.0.1", detail="why")
    with cluster.engine.begin() as connection:
        for number in range(3):
            wish = Wish(None, f"prefix-{number}", None, NOW_MS + 1_000, "known")
            finding_marks.set_mute(connection, cluster.id, wish, done)
            receivers.add_receiver(connection, f"receiver-{number}", "webhook", 0)
    yield url
    for seeded_cluster in (cluster, *others):
        seeded_cluster.close()


def address(path: str, *queries: str) -> str:
    query = QUERIES.get(path.removeprefix("/api/v1/clusters/{cluster}"), "")
    return f"{path.format(**PLACES)}?{'&'.join(filter(None, (query, *queries)))}"


def test_the_lists_of_the_contract_are_found() -> None:
    names = {path.rpartition("/")[2] for path in LISTS}
    assert names >= {"clusters", "transactions", "timeline", "rates", "{producer_id}", "partitions", "hanging"}
    assert names >= {"findings", "expiring", "coordinators", "groups", "markers", "volume"}


def test_each_operation_named_list_is_a_list() -> None:
    called = {path for path, route in ROUTES.items() if (route.operation_id or "").startswith("list")}
    assert called <= LISTS.keys()


@pytest.mark.parametrize("path", LISTS)
def test_a_list_has_one_shape(client: TestClient, path: str) -> None:
    body = get(client, address(path))
    assert body.keys() >= {"items", "next_cursor", "as_of"}
    assert (body["next_cursor"], body["as_of"]) == (None, NOW)
    assert len(body["items"]) > 1, "the store of this test has too few items for the list"


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("path", LISTS)
def test_following_the_cursor_returns_the_whole_list(client: TestClient, path: str, limit: int) -> None:
    *full, last = [page["items"] for page in pages(client, address(path, f"limit={limit}"))]
    assert all(len(page) == limit for page in full), "only the last page may be short"
    assert [item for page in (*full, last) for item in page] == get(client, address(path, "limit=200"))["items"]


@pytest.mark.parametrize("path", LISTS)
def test_limits_have_the_bounds_of_the_contract(client: TestClient, path: str) -> None:
    assert get(client, address(path, "limit=1"))["items"] == get(client, address(path))["items"][:1]
    (limit,) = (field for field in LISTS[path].dependant.query_params if field.alias == "limit")
    assert limit.field_info.default == 50
    for text, words in (("0", "greater than or equal to 1"), ("201", "less than or equal to 200"), ("x", "integer")):
        refused = client.get(address(path, f"limit={text}"))
        assert (refused.status_code, refused.json()["type"]) == (422, "urn:txnscope:bad-parameter")
        (error,) = refused.json()["errors"]
        assert error["parameter"] == "limit"
        assert words in error["message"]


@pytest.mark.parametrize("cursor", ["", "nonsense", encode_bytes(bytes(40)), "%F0%9F%98%80"])
@pytest.mark.parametrize("path", LISTS)
def test_an_invalid_cursor_is_refused(client: TestClient, path: str, cursor: str) -> None:
    refused = client.get(address(path, f"cursor={cursor}"))
    assert refused.headers["content-type"] == "application/problem+json"
    assert (refused.status_code, refused.json()["type"]) == (400, "urn:txnscope:bad-cursor"), refused.text


def test_a_cursor_serves_only_the_list_that_gave_it(client: TestClient) -> None:
    cursors = {path: get(client, address(path, "limit=1"))["next_cursor"] for path in LISTS}
    for path, other in pairwise([*LISTS, next(iter(LISTS))]):
        refused = client.get(address(other, f"cursor={cursors[path]}"))
        assert (refused.status_code, refused.json()["type"]) == (400, "urn:txnscope:bad-cursor"), (path, other)


@pytest.mark.parametrize("path", LISTS)
def test_a_changed_cursor_is_refused_or_harmless(client: TestClient, path: str) -> None:
    cursor = get(client, address(path, "limit=1"))["next_cursor"]
    for position in range(len(cursor)):
        for limit, letter in enumerate("A_9", 1):  # a cursor is valid with any limit
            changed = cursor[:position] + letter + cursor[position + 1 :]
            assert client.get(address(path, f"limit={limit}", f"cursor={changed}")).status_code in (200, 400)


@pytest.mark.parametrize("path", LISTS)
def test_the_document_describes_limit_and_cursor_of_each_list(path: str) -> None:
    operation = create_app(NO_STORE).openapi()["paths"][path]["get"]
    parameters = {parameter["name"]: parameter["schema"] for parameter in operation["parameters"]}
    assert parameters["limit"].items() >= {"minimum": 1, "maximum": 200, "default": 50}.items()
    assert parameters["cursor"]["type"] == "string"
    assert "400" in operation["responses"]

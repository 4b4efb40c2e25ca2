"""Tests of every route without a key, with the keys of several roles, and with a key for another cluster.

A test fails if a route is missing from TABLE.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest
from fastapi import APIRouter

from service.api.http.access import check_declared
from service.app import create_app
from tests.helpers.access import Guarded, guarded

PLACES: Final = {
    "cluster": "orders",
    "topic": "orders",
    "partition": "0",
    "offset": "1",
    "producer_id": "7",
    "name": "runbooks/README.md",
    "path": "style.css",
}


class Row(NamedTuple):
    """The status of the answer to each kind of sender. `query` is the query string of a valid request."""

    nobody: int
    viewer: int
    viewer_of_another: int
    operator: int
    viewer_of_all: int
    scraper: int
    query: str = ""


def of_cluster(answer: int = 200, query: str = "") -> Row:
    """Returns the row of a route about one cluster. Every role that may see the cluster may use the route."""
    return Row(401, answer, 403, answer, answer, 403, query)


def of_all(answer: int = 200) -> Row:
    """Returns the row of a route about all clusters together."""
    return Row(401, 403, 403, 403, answer, 403)


def shared(answer: int = 200, query: str = "") -> Row:
    """Returns the row of a route that is not about one cluster. An answer that lists clusters omits those that the
    sender may not see."""
    return Row(401, answer, answer, answer, answer, 403, query)


def of_operators(answer: int) -> Row:
    """Returns the row of a route that changes a cluster, or that shows the actions of other users."""
    return Row(401, 403, 403, answer, 403, 403)


OPEN: Final = Row(200, 200, 200, 200, 200, 200)
A: Final = "/api/v1"
C: Final = f"{A}/clusters/{{cluster}}"
P: Final = "/clusters/{cluster}"

TABLE: Final[dict[tuple[str, str], Row]] = {
    ("GET", "/-/healthy"): OPEN,
    ("GET", "/-/ready"): OPEN,
    ("GET", "/metrics"): Row(401, 403, 403, 403, 200, 200),
    ("GET", "/version"): shared(),
    ("GET", "/openapi.json"): shared(),
    ("GET", "/llms.txt"): shared(),
    ("GET", "/static/{path}"): shared(),
    ("GET", "/guide"): shared(303),
    ("GET", "/guide/"): shared(303),
    ("GET", "/guide/{name}"): shared(),
    ("GET", f"{A}/events"): shared(),
    ("GET", "/events"): shared(),
    ("GET", f"{A}/clusters"): shared(),
    ("GET", f"{A}/notifications"): of_all(),
    ("GET", "/notifications"): of_all(),
    ("GET", "/"): shared(),
    ("GET", "/go"): of_cluster(303, "cluster=orders"),
    ("GET", C): of_cluster(),
    ("GET", f"{C}/canary"): of_cluster(),
    ("GET", f"{C}/transactions"): of_cluster(),
    ("GET", f"{C}/transaction"): of_cluster(query="id=pay"),
    ("GET", f"{C}/transaction/timeline"): of_cluster(query="id=pay"),
    ("GET", f"{C}/transaction/rates"): of_cluster(query="id=pay"),
    ("GET", f"{C}/producers/{{producer_id}}"): of_cluster(),
    ("GET", f"{C}/partitions"): of_cluster(),
    ("GET", f"{C}/partitions/{{topic}}/{{partition}}"): of_cluster(),
    ("GET", f"{C}/partitions/{{topic}}/{{partition}}/offsets/{{offset}}"): of_cluster(503),
    ("GET", f"{C}/partitions/{{topic}}/{{partition}}/markers"): of_cluster(404),
    ("GET", f"{C}/partitions/{{topic}}/{{partition}}/volume"): of_cluster(404),
    ("GET", f"{C}/applications"): of_cluster(),
    ("GET", f"{C}/applications/{{name}}"): of_cluster(404),
    ("GET", f"{C}/hanging"): of_cluster(),
    ("GET", f"{C}/findings"): of_cluster(),
    ("GET", f"{C}/findings/{{finding}}"): of_cluster(),
    ("GET", f"{C}/expiring"): of_cluster(),
    ("GET", f"{C}/coordinators"): of_cluster(),
    ("GET", f"{C}/groups"): of_cluster(),
    ("POST", f"{C}/findings/{{finding}}/resolve"): of_operators(503),
    ("POST", f"{C}/findings/{{finding}}/acknowledge"): of_operators(422),
    ("GET", f"{C}/audit"): of_operators(200),
    ("GET", f"{C}/mutes"): of_cluster(),
    ("POST", f"{C}/mutes"): of_operators(422),
    ("DELETE", f"{C}/mutes"): of_operators(422),
    ("GET", f"{P}/audit"): of_operators(200),
    ("POST", f"{P}/findings/{{finding}}/mute"): of_operators(422),
    ("POST", f"{P}/findings/{{finding}}/acknowledge"): of_operators(422),
    ("GET", P): of_cluster(),
    ("GET", f"{P}/goto"): of_cluster(303, "q=pay"),
    ("GET", f"{P}/findings"): of_cluster(),
    ("GET", f"{P}/findings/{{finding}}"): of_cluster(),
    ("GET", f"{P}/transactions"): of_cluster(),
    ("GET", f"{P}/transaction"): of_cluster(query="id=pay"),
    ("GET", f"{P}/applications"): of_cluster(),
    ("GET", f"{P}/applications/{{name}}"): of_cluster(404),
    ("GET", f"{P}/partitions"): of_cluster(),
    ("GET", f"{P}/partitions/{{topic}}/{{partition}}"): of_cluster(),
    ("GET", f"{P}/groups"): of_cluster(),
    ("GET", f"{P}/expiring"): of_cluster(),
    ("GET", f"{P}/pipeline"): of_cluster(),
}


def routes() -> set[tuple[str, str]]:
    """Returns the method and path of every route of the application's own routers."""
    found = set()
    for route in create_app("sqlite:///never-read.db").routes:
        for one in getattr(route, "effective_route_contexts", lambda route=route: [route])():
            methods = set(getattr(one, "methods", None) or {"GET"}) - {"HEAD"}
            path = one.path + "/{path}" if type(one).__name__ == "Mount" else one.path.replace(":path}", "}")
            found |= {(method, path) for method in methods}
    return found


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(f"sqlite:///{tmp_path_factory.mktemp('access') / 'store.db'}") as one:
        yield one


def test_the_table_has_every_route_and_no_other() -> None:
    assert set(TABLE) == routes()


def asked(here: Guarded, who: str | None, method: str, path: str, row: Row) -> int:
    filled = path.format(**PLACES, finding=here.finding())
    address = f"{filled}?{row.query}" if row.query else filled
    body: dict[str, Any] = {} if method == "GET" else {"json": {}}
    if path.endswith("/events"):  # the stream never ends, so the status is checked with HEAD
        with here.client.stream("HEAD", address, headers=here.headers(who)) as answer:
            return int(answer.status_code)
    return int(here.ask(who, address, method, follow_redirects=False, **body).status_code)


@pytest.mark.parametrize(("method", "path"), sorted(TABLE))
def test_a_route_answers_each_principal_by_its_role(here: Guarded, method: str, path: str) -> None:
    row = TABLE[method, path]
    who = (None, "viewer", "viewer of another", "operator", "viewer of all", "scraper")
    assert [asked(here, one, method, path, row) for one in who] == list(row[:6])


def test_a_route_without_a_declared_role_keeps_the_service_from_starting() -> None:
    router = APIRouter()
    router.add_api_route("/api/v1/clusters/{cluster}/findings", lambda: None, methods=["GET"])
    check_declared(router.routes)
    router.add_api_route("/api/v1/clusters/{cluster}/findings", lambda: None, methods=["POST"])
    with pytest.raises(RuntimeError, match=r"POST /api/v1/clusters/{cluster}/findings: .* has no role for it"):
        check_declared(router.routes)


@pytest.mark.parametrize("path", ["/nothing", "/api/v1/nothing", "/clusters/orders/nothing", "/api/v1/clusters/x/y"])
def test_an_unknown_path_is_closed_too(here: Guarded, path: str) -> None:
    assert [here.ask(who, path).status_code for who in (None, "viewer of another")] == [401, 403]
    assert here.ask("admin", path).status_code == 404


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "BREW"])
def test_a_method_that_no_route_takes_is_closed_too(here: Guarded, method: str) -> None:
    assert here.ask(None, "/api/v1/clusters/orders", method).status_code == 401
    assert here.ask("viewer", "/api/v1/clusters/orders", method).status_code == 405

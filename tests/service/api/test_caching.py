"""Tests of ETags and cached answers. Many simultaneous requests need one rendering, and an answer has the newest data
of the store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi import Request, Response

from service.api.http.answers import KEPT_MS, Answers
from service.domain.transaction_log import states
from service.store.engine import DataVersions, open_reader
from service.store.errors import StoreUnavailable
from tests.helpers.brokers import free_port
from tests.helpers.partitions import WithPartitions, moving_partition
from tests.helpers.stores import NOW_MS, Id, SeededCluster, client_of, open_id
from tests.helpers.waiting import LIMIT_S

CLUSTER = "/api/v1/clusters/orders"
PATHS = [
    "/api/v1/clusters",
    CLUSTER,
    f"{CLUSTER}/transactions",
    f"{CLUSTER}/transaction?id=a",
    f"{CLUSTER}/coordinators",
    f"{CLUSTER}/transaction/timeline?id=a",
    f"{CLUSTER}/transaction/rates?id=a",
    f"{CLUSTER}/producers/1000",
    f"{CLUSTER}/expiring?within=7d",
]
STEP_MS = NOW_MS - NOW_MS % 5_000
"""From this time on, `as_of` may advance by 4,999 ms before the ETag has to change."""


def stored(cluster: SeededCluster) -> None:
    cluster.read([Id(b"a")], now_ms=STEP_MS)


pytestmark = pytest.mark.cluster(stored=stored)


@pytest.mark.parametrize("path", PATHS)
def test_an_answer_known_already_is_not_sent_again(cluster: SeededCluster, path: str) -> None:
    with client_of(cluster.url) as client:
        first = client.get(path)
        tag = first.headers["etag"]
        assert tag.startswith('W/"')
        for known in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
            again = client.get(path, headers={"If-None-Match": known})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == tag
            assert again.headers["x-content-type-options"] == "nosniff"
        assert client.get(path, headers={"If-None-Match": 'W/"other"'}).content == first.content


@pytest.mark.parametrize("path", PATHS)
def test_the_tag_stays_for_five_seconds_while_only_as_of_moves(cluster: SeededCluster, path: str) -> None:
    with client_of(cluster.url) as client:
        tag = client.get(path).headers["etag"]
        cluster.read(now_ms=STEP_MS + 4_999)
        assert client.get(path).headers["etag"] == tag
        cluster.read(now_ms=STEP_MS + 5_000)
        assert client.get(path).headers["etag"] != tag


@pytest.mark.parametrize("path", PATHS)
def test_a_new_record_changes_the_tag_at_once(cluster: SeededCluster, path: str) -> None:
    with client_of(cluster.url) as client:
        tag = client.get(path).headers["etag"]
        cluster.read([open_id("a", 5_000, commits=1, producer_epoch=4)], now_ms=STEP_MS)
        cluster.read([Id(b"a", states.EXPIRED, timestamp_ms=STEP_MS, producer_id=-1)], now_ms=STEP_MS)
        assert client.get(path, headers={"If-None-Match": tag}).status_code == 200


@pytest.mark.parametrize("path", ["partitions", "partitions/orders/0", "hanging"])
def test_the_tag_of_partitions_follows_their_sample(tmp_path: Path, path: str) -> None:
    cluster = WithPartitions(f"sqlite:///{tmp_path / 'partitions.db'}")
    cluster.look(moving_partition(at_ms=STEP_MS), at_ms=STEP_MS)
    with client_of(cluster.url) as client:
        tag = client.get(f"{CLUSTER}/{path}").headers["etag"]
        cluster.read(now_ms=STEP_MS + 10_000)
        assert client.get(f"{CLUSTER}/{path}", headers={"If-None-Match": tag}).status_code == 304
        cluster.look(at_ms=STEP_MS + 5_000)
        assert client.get(f"{CLUSTER}/{path}").headers["etag"] != tag
    cluster.close()


def test_every_query_has_its_own_tag(cluster: SeededCluster) -> None:
    with client_of(cluster.url) as client:
        tags = {client.get(f"{CLUSTER}/transactions?{query}").headers["etag"] for query in ("", "prefix=x")}
    assert len(tags) == 2


CLIENTS = 50


class Service:
    """A service that counts its renderings. Each answer contains the count."""

    def __init__(self, url: str) -> None:
        self.renderings = 0
        self.now_ms = NOW_MS
        self.status = 200
        self.while_rendering: Callable[[], None] = lambda: None
        self.engine = open_reader(url)
        self._answers = Answers(DataVersions(self.engine), lambda: self.now_ms)

    def get(self, *queries: str) -> list[str]:
        """Sends one request for each query, all at the same time. Returns the bodies of the answers, in the order of
        the queries."""

        async def ask() -> list[str]:
            return await asyncio.gather(*(self.ask(query) for query in queries))

        return asyncio.run(ask())

    async def ask(self, query: str) -> str:
        answer = await self._answers.answer(_request(query), self._render)
        return bytes(answer.body).decode()

    async def _render(self, _: Request) -> Response:
        self.renderings += 1
        body = str(self.renderings)
        await asyncio.to_thread(self.while_rendering)
        return Response(body, self.status)


def _request(query: str) -> Request:
    return Request({"type": "http", "path": "/page", "query_string": query.encode(), "headers": []})


@pytest.fixture
def service(cluster: SeededCluster) -> Iterator[Service]:
    service = Service(cluster.url)
    yield service
    service.engine.dispose()


def test_many_requests_at_once_cost_one_rendering(service: Service) -> None:
    assert set(service.get(*[""] * CLIENTS)) == {"1"}


def test_a_request_after_a_change_of_the_store_sees_it(service: Service, cluster: SeededCluster) -> None:
    seen = []
    for number in range(5):
        seen += service.get("")
        cluster.read([Id(b"%d" % number)])
    assert seen == ["1", "2", "3", "4", "5"]


def test_requests_during_a_rendering_share_the_next_rendering(service: Service, cluster: SeededCluster) -> None:
    """A request that arrives during a rendering gets the next rendering. The sender may know of a change that the
    present rendering lacks."""
    begun, may_end = threading.Event(), threading.Event()

    def stand() -> None:
        begun.set()
        may_end.wait(LIMIT_S)

    async def ask() -> list[str]:
        first = asyncio.create_task(service.ask(""))
        await asyncio.to_thread(begun.wait, LIMIT_S)
        cluster.read([Id(b"b")])
        others = [asyncio.create_task(service.ask("")) for _ in range(CLIENTS)]
        await asyncio.sleep(0)
        may_end.set()
        return [await task for task in (first, *others)]

    service.while_rendering = stand
    assert asyncio.run(ask()) == ["1", *["2"] * CLIENTS]


def test_a_failed_rendering_fails_every_request_that_waits_for_it(service: Service) -> None:
    """The waiting requests do not read the store again."""

    def fail() -> None:
        raise StoreUnavailable("away")

    async def ask() -> list[object]:
        return await asyncio.gather(*(service.ask("") for _ in range(CLIENTS)), return_exceptions=True)

    service.while_rendering = fail
    assert {type(answer) for answer in asyncio.run(ask())} == {StoreUnavailable}
    assert service.renderings == 1
    service.while_rendering = lambda: None
    assert service.get("") == ["2"]


def test_ages_in_an_answer_are_a_second_old_at_most(service: Service) -> None:
    for passed, expected in ((0, "1"), (KEPT_MS - 1, "1"), (1, "2"), (-1, "3")):
        service.now_ms += passed
        assert service.get("") == [expected]


def test_each_query_has_its_own_rendering(service: Service) -> None:
    one, two, none, again = service.get("a=1", "a=2", "", "a=1")
    assert again == one
    assert {one, two, none} == {"1", "2", "3"}


def test_an_error_answer_is_not_cached(service: Service) -> None:
    service.status = 500
    assert [*service.get(""), *service.get("")] == ["1", "2"]


def test_no_answer_is_cached_while_the_store_does_not_answer() -> None:
    service = Service(f"postgresql://127.0.0.1:{free_port()}/nobody")
    assert [*service.get(""), *service.get("")] == ["1", "2"]


def test_pages_and_answers_show_the_next_batch_at_once(cluster: SeededCluster) -> None:
    with client_of(cluster.url) as client:
        for path in ("/clusters/orders/transactions", "/api/v1/clusters/orders/transactions"):
            for number in range(3):
                added = f"{path.partition('/')[0]}{path.count('/')}-{number}"
                assert added not in client.get(path).text
                cluster.read([Id(added.encode())])
                assert added in client.get(path).text

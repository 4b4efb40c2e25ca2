"""ETags: a client that has the answer learns so, and never left with an old `as_of` for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.domain.transaction_log import states
from tests.helpers.partitions import WithPartitions, moving_partition
from tests.helpers.stores import NOW_MS, Id, SeededCluster, client_of, open_id

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
"""A moment from which `as_of` may move by 4,999 ms before the ETag has to."""


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
def test_news_change_the_tag_at_once(cluster: SeededCluster, path: str) -> None:
    with client_of(cluster.url) as client:
        tag = client.get(path).headers["etag"]
        cluster.read([open_id("a", 5_000, commits=1, producer_epoch=4)], now_ms=STEP_MS)
        cluster.read([Id(b"a", states.EXPIRED, timestamp_ms=STEP_MS, producer_id=-1)], now_ms=STEP_MS)
        assert client.get(path, headers={"If-None-Match": tag}).status_code == 200


@pytest.mark.parametrize("path", ["partitions", "partitions/orders/0", "hanging"])
def test_what_is_told_of_partitions_is_as_old_as_their_look(tmp_path: Path, path: str) -> None:
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

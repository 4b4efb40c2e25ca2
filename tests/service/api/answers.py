"""Helpers that read REST answers, and that fill a store with rows for most routes."""

from __future__ import annotations

from typing import Any

from fastapi.testclient import TestClient

from service.store import clusters
from tests.helpers.partitions import (
    WithPartitions,
    entry,
    hanging_finding,
    moving_partition,
    stalled_partition,
    unanswered_partition,
)
from tests.helpers.partitions import read as read_of
from tests.helpers.stores import DESCRIPTION, INT64_MAX, NOW_MS, Id, SeededCluster, client_of, mixed_ids, open_id
from tests.service.store.histories import MINUTE, aborted, committed
from tests.service.store.logs import batch, read


def get(of: TestClient | SeededCluster, path: str, status: int = 200) -> Any:
    """Checks the status of an answer, and returns its JSON body.

    `of` is a client, or a cluster. For a cluster, the request goes to a new service over the cluster's store.
    """
    if isinstance(of, SeededCluster):
        with client_of(of.url) as client:
            return get(client, path, status)
    response = of.get(path)
    assert response.status_code == status, response.text
    return response.json()


def pages(client: TestClient, path: str) -> list[Any]:
    """Returns all pages of a list by following the cursors. `path` contains a query, and every request repeats the
    query."""
    found = [get(client, path)]
    while (cursor := found[-1]["next_cursor"]) is not None:
        found.append(get(client, f"{path}&cursor={cursor}"))
    return found


def items(client: TestClient, path: str) -> list[Any]:
    """Returns the items of all pages of a list."""
    return [item for page in pages(client, path) for item in page["items"]]


def with_everything(url: str, name: str, *ids: Id) -> WithPartitions:
    """Returns a cluster in a store with `ids`, ids of all states, an id with a history, partitions in every condition,
    and a hanging finding."""
    cluster = WithPartitions(url, name, partitions=2)
    clusters.describe(cluster.engine, cluster.id, DESCRIPTION, NOW_MS)
    lived = [*committed(0, MINUTE, b"lived"), *aborted(3, MINUTE + 1_000, b"lived", pid=INT64_MAX - 1)]
    cluster.writer.apply(batch(lived, read(0, 6, partition=1)), NOW_MS)
    cluster.read(mixed_ids(60))
    cluster.read([*ids, open_id(b"\x00/?&\xff", 80_000_000), Id(b"wide", producer_id=INT64_MAX)])
    held = entry(INT64_MAX, records=5, bytes=500, last_timestamp_ms=INT64_MAX)
    standing = (stalled_partition(), stalled_partition(1), moving_partition(2), unanswered_partition("no leader", 3))
    cluster.look(*standing, read_of(held), not_covered=3)
    cluster.see(hanging_finding(producer_id=INT64_MAX))
    return cluster

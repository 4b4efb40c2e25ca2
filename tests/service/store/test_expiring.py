"""Tests of the list of expiring ids. The first id expires soonest, each id is listed once, and every page is read
through the index of ids that can expire."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from service.domain.transaction_log import states
from service.store.queries.expiring import ExpiringCursor, count_expiring, read_expiring
from service.views.cluster.metric_facts import all_facts
from tests.helpers.stores import INT64_MAX, INT64_MIN, NOW_MS, Id, SeededCluster, mixed_ids, open_id
from tests.service.store.query_plans import plans

DAY_MS = 86_400_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SeededCluster]:
    cluster = SeededCluster(f"sqlite:///{tmp_path / 'store.db'}")
    yield cluster
    cluster.close()


def walk(cluster: SeededCluster, until_ms: int, limit: int) -> list[bytes]:
    found: list[bytes] = []
    after: ExpiringCursor | None = None
    with cluster.engine.connect() as connection:
        while True:
            page = read_expiring(connection, cluster.id, until_ms, after, limit)
            found += [row.transactional_id for row in page.rows]
            after = page.after
            if after is None:
                return found
            assert len(page.rows) == limit, "only the last page may be short"


def count(cluster: SeededCluster, *until_ms: int) -> list[int]:
    with cluster.engine.connect() as connection:
        return count_expiring(connection, cluster.id, until_ms)


@pytest.mark.parametrize("limit", [1, 7, 200])
def test_pages_and_counts_agree_on_what_can_expire(cluster: SeededCluster, limit: int) -> None:
    cluster.read(mixed_ids())
    until_ms = NOW_MS - 10_000
    found = walk(cluster, until_ms, limit)
    expected = [one for one in mixed_ids() if one.state in states.EXPIRABLE and 0 <= one.last_update_ms <= until_ms]
    assert found == [one.id for one in sorted(expected, key=lambda one: (one.last_update_ms, one.id))]
    assert count(cluster, until_ms) == [len(found)]


def test_ids_that_cannot_expire_are_left_out(cluster: SeededCluster) -> None:
    old_ms = NOW_MS - 8 * DAY_MS
    cluster.read(
        [
            Id(b"idle", last_update_ms=old_ms),
            open_id("open", 8 * DAY_MS),
            Id(b"gone", states.EXPIRED, last_update_ms=old_ms),
            Id(b"unknown", states.UNKNOWN, last_update_ms=old_ms),
            Id(b"never", last_update_ms=INT64_MAX),
            Id(b"no time", last_update_ms=INT64_MIN),
            Id(b"empty", states.EMPTY, last_update_ms=-1),
        ]
    )
    assert walk(cluster, NOW_MS, 50) == [b"idle"]
    assert count(cluster, old_ms - 1, old_ms, NOW_MS) == [0, 1, 1]


def test_metrics_count_by_the_time_left(cluster: SeededCluster) -> None:
    """Kafka's default of seven days is assumed until the brokers report their setting."""
    left_ms = (-1_000, 1_800_000, 3 * 3_600_000, 2 * DAY_MS, 4 * DAY_MS)
    cluster.read(Id(b"%d" % n, last_update_ms=NOW_MS + left - 7 * DAY_MS) for n, left in enumerate(left_ms))
    with cluster.engine.connect() as connection:
        (facts,) = all_facts(connection, NOW_MS)
    assert facts.expiring == {"1h": 2, "24h": 3, "72h": 4}


@pytest.mark.parametrize("after", [None, ExpiringCursor(NOW_MS - 30_000, b"app-00100")], ids=["first", "later"])
def test_a_page_follows_the_index_of_ids_that_can_expire(cluster: SeededCluster, after: ExpiringCursor | None) -> None:
    """The index contains only ids that can expire. So a page reads no expired ids, of which there may be far more."""
    cluster.read(mixed_ids())
    steps = plans(cluster.engine, lambda connection: read_expiring(connection, cluster.id, NOW_MS, after, 200))
    assert all("INDEX ix_transactional_ids_expiring" in step for step in steps if "transactional_ids" in step)
    assert "USE TEMP B-TREE FOR ORDER BY" not in steps


def test_metrics_read_few_ids_by_index(cluster: SeededCluster) -> None:
    cluster.read(mixed_ids())
    steps = plans(cluster.engine, partial(all_facts, now_ms=NOW_MS))
    ids = [step for step in steps if "transactional_ids" in step]
    assert all(step.startswith("SEARCH") for step in ids)
    assert sum("COVERING INDEX ix_transactional_ids_cluster_id_state_last_update_ms" in step for step in ids) == 3
    assert sum("COVERING INDEX ix_transactional_ids_epoch" in step for step in ids) == 1

"""Partitions are found one by one, by pages, by how long they stand: each by an index."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event

from service.store.queries import partitions
from tests.service.store.conftest import Cluster, only_on
from tests.service.store.logs import NOW_MS
from tests.service.store.looks import Watched, look


@pytest.fixture
def watched(cluster: Cluster) -> Watched:
    """orders-0 to 11, of which each third stands, those with a higher number for longer; and one other topic."""
    watched = Watched(cluster)
    free = [look(NOW_MS, 110, partition=n) for n in range(12) if n % 3]
    standing = [look(NOW_MS, partition=n, stalled_since_ms=NOW_MS - n) for n in range(0, 12, 3)]
    watched.see(*free, *standing, look(NOW_MS, topic="Orders.2"), is_full=True)
    return watched


def pages(watched: Watched, limit: int, **chosen: Any) -> list[list[tuple[str, int]]]:
    found, after = [], None
    with watched.cluster.engine.connect() as connection:
        while True:
            rows, after = partitions.page(connection, watched.cluster.id, after, limit, **chosen)
            found.append([(row.topic, row.partition) for row in rows])
            if after is None:
                return found


def test_pages_follow_each_other_without_gap_or_overlap(watched: Watched) -> None:
    orders = [("orders", n) for n in range(12)]
    assert pages(watched, 5, topic="orders") == [orders[:5], orders[5:10], orders[10:]]
    everywhere = [place for page in pages(watched, 2) for place in page]
    assert everywhere == [("Orders.2", 0), *orders], "by the bytes of the topic, whatever the database's own order"
    assert len(pages(watched, 13)) == 1


def test_pages_of_those_that_stand_and_of_the_others(watched: Watched) -> None:
    standing = [("orders", n) for n in range(0, 12, 3)]
    assert pages(watched, 3, topic="orders", lagging=True) == [standing[:3], standing[3:]]
    assert pages(watched, 8, topic="orders", lagging=False) == [[("orders", n) for n in range(12) if n % 3]]
    assert pages(watched, 8, topic="no such\0topic") == [[]]


def test_those_that_stand_come_the_longest_first(watched: Watched) -> None:
    with watched.cluster.engine.connect() as connection:
        found = partitions.stalled(connection, watched.cluster.id)
        assert [(row.topic, row.partition) for row in found[:3]] == [("orders", 9), ("orders", 6), ("orders", 3)]
        assert partitions.stalled(connection, watched.cluster.id, limit=2) == found[:2]
        assert len(partitions.stall_clocks(connection, watched.cluster.id)) == 5


def test_what_no_topic_can_be_called_is_not_found(watched: Watched) -> None:
    with watched.cluster.engine.connect() as connection:
        assert partitions.find(connection, watched.cluster.id, "or\0ders", 0) is None
        assert partitions.find(connection, watched.cluster.id, "orders", 99) is None


@only_on("sqlite")
def test_everything_is_found_by_an_index(watched: Watched) -> None:
    ran: list[tuple[str, Any]] = []

    def keep(_conn: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        ran.append((statement, parameters))

    number, after = watched.cluster.id, ("orders", 3)
    with watched.cluster.engine.connect() as connection:
        event.listen(connection, "before_cursor_execute", keep)
        partitions.stall_clocks(connection, number)
        partitions.stalled(connection, number)
        partitions.find(connection, number, *after)
        partitions.page(connection, number, after, 5)
        partitions.page(connection, number, after, 5, lagging=True, topic="orders")
        partitions.entries(connection, number, [after, ("orders", 4)])
        partitions.groups(connection, number, [after, ("orders", 4)])
        event.remove(connection, "before_cursor_execute", keep)
        steps = []
        for statement, parameters in ran:
            steps += [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]
    assert not [step for step in steps if step.startswith("SCAN") and "CONSTANT" not in step and "subquery" not in step]
    wanted = ("cluster_id=? AND topic=? AND partition=?", "ix_data_partitions_stalled")
    assert all(any(index in step for step in steps) for index in wanted), steps

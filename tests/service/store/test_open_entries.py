"""Tests that the store opens and ends an entry of a partition only by proof.

Also tests lookups of partitions, one by one and by page, each through an index.
"""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection

from service.domain.partitions.facts import PartitionObservation, StalledRead
from service.store.queries import partitions
from tests.helpers.reasons import denied
from tests.service.store.conftest import Cluster, only_on
from tests.service.store.logs import NOW_MS
from tests.service.store.looks import Watched, described, entry, look, silent
from tests.service.store.query_plans import plans


@pytest.fixture
def watched(cluster: Cluster) -> Watched:
    """Stores a sample at NOW_MS. The entry of producer 7 begins at offset 100, which is the LSO, and the entry of
    producer 8 at 105."""
    watched = Watched(cluster)
    watched.see(look(NOW_MS), described(NOW_MS + 1, entry(7), entry(8, 105)))
    return watched


def test_an_entry_comes_back_field_by_field(watched: Watched) -> None:
    numbers = {"coordinator_epoch": -2, "last_timestamp_ms": -1, "records": 4, "bytes": 2**40}
    watched.see(described(NOW_MS + 2, entry(9, 107, 3, **numbers), is_whole=True, described=False))
    assert watched.entries() == [("orders", 0, 9, 3, 107, -2, -1, 4, 2**40, NOW_MS + 2, NOW_MS + 2)]


def test_an_entry_is_the_same_while_producer_and_start_offset_stay(watched: Watched) -> None:
    watched.see(described(NOW_MS + 9, entry(7, epoch=4, last_timestamp_ms=NOW_MS), entry(8, 106)))
    assert watched.open() == {7: (NOW_MS + 1, 100), 8: (NOW_MS + 9, 106)}
    seven = watched.entries()[0]
    assert (seven.producer_epoch, seven.last_timestamp_ms, seven.seen_at_ms) == (4, NOW_MS, NOW_MS + 9)


SEVEN, EIGHT, NINE = {7: (NOW_MS + 1, 100)}, {8: (NOW_MS + 1, 105)}, {9: (NOW_MS + 9, 103)}


@pytest.mark.parametrize(
    ("fact", "left"),
    [
        pytest.param(described(NOW_MS + 9, entry(8, 105)), EIGHT, id="described: 8 alone"),
        pytest.param(described(NOW_MS + 9, entry(8, 105), described=False, is_whole=True), EIGHT, id="whole: 8 alone"),
        pytest.param(described(NOW_MS + 9, entry(9, 103), described=False), SEVEN | EIGHT | NINE, id="a part: 9 alone"),
        pytest.param(look(NOW_MS + 2, 120, 120), {}, id="the LSO reaches the high watermark"),
        pytest.param(look(NOW_MS + 2, 105), EIGHT, id="the LSO passes 7"),
        # Retention removed the records of 7, but its entry is open; Kafka keeps the LSO at or above the log start.
        pytest.param(look(NOW_MS + 2, 103, log_start=103), SEVEN | EIGHT, id="the log starts at the LSO"),
        pytest.param(look(NOW_MS + 2, 101, log_start=103), SEVEN | EIGHT, id="the log starts above the LSO"),
        pytest.param(silent(NOW_MS + 2), SEVEN | EIGHT, id="no answer"),
    ],
)
def test_an_entry_ends_only_with_a_proof(
    watched: Watched, fact: PartitionObservation | StalledRead, left: dict[int, tuple[int, int]]
) -> None:
    watched.see(fact)
    assert watched.open() == left


def test_a_read_without_any_result_ends_no_entry(watched: Watched) -> None:
    watched.see(described(NOW_MS + 9, described=False, first=None, why=denied("orders")))
    assert watched.open().keys() == {7, 8}
    assert watched.there().read_why == denied("orders")


def test_a_read_from_before_the_lso_reached_the_watermark_opens_no_entry(watched: Watched) -> None:
    watched.see(look(NOW_MS + 9, 120, 120), described(NOW_MS + 5, entry(9)))
    assert (watched.open(), watched.there().read_at_ms) == ({}, None)


def test_a_read_from_before_the_lso_passed_an_entry_does_not_open_it_again(watched: Watched) -> None:
    """An LSO never passes an open transaction. So a read that is older than the LSO's sample must not open the entry
    again: the next read would end the entry, but may come late or be denied."""
    watched.see(look(NOW_MS + 2, 105))
    watched.see(described(NOW_MS + 1, entry(7), entry(8, 105), entry(9, 107)))
    assert watched.open().keys() == {8, 9}


def test_a_recreated_topic_has_entries_of_its_own(watched: Watched) -> None:
    watched.see(look(NOW_MS + 2, topic_id="T2"))
    assert watched.open() == {}
    watched.see(described(NOW_MS + 3, entry(7)))
    assert watched.open() == {}, "the read is of the deleted topic, which had another topic id"
    watched.see(described(NOW_MS + 3, entry(7), topic_id="T2"))
    assert watched.open() == {7: (NOW_MS + 3, 100)}


def test_entries_of_requested_partitions_are_sorted_by_place_and_start(watched: Watched) -> None:
    for partition in (1, 2):
        watched.see(look(NOW_MS, partition=partition))
        watched.see(described(NOW_MS, entry(2, 109), entry(1, 109), entry(3, 102), partition=partition))
    with watched.cluster.engine.connect() as connection:
        asked = [("orders", 2), ("orders", 1), ("orders", 2), ("none", 0)]
        found = partitions.entries(connection, watched.cluster.id, asked)
        assert [(entry.partition, entry.producer_id) for entry in found] == [
            (p, pid) for p in (1, 2) for pid in (3, 1, 2)
        ]
        assert partitions.entries(connection, watched.cluster.id, asked, limit=4) == found[:4]
        assert partitions.entries(connection, watched.cluster.id, []) == []


@pytest.fixture
def twelve(cluster: Cluster) -> Watched:
    """Stores samples of orders-0 to orders-11 and of Orders.2-0. Every third partition of orders is stalled, and so is
    Orders.2-0. The higher the number of a partition of orders, the longer its stall."""
    twelve = Watched(cluster)
    free = [look(NOW_MS, 110, partition=n) for n in range(12) if n % 3]
    standing = [look(NOW_MS, partition=n, stalled_since_ms=NOW_MS - n) for n in range(0, 12, 3)]
    twelve.see(*free, *standing, look(NOW_MS, topic="Orders.2"), is_full=True)
    return twelve


def pages(twelve: Watched, limit: int, **chosen: Any) -> list[list[tuple[str, int]]]:
    found, after = [], None
    with twelve.cluster.engine.connect() as connection:
        while True:
            rows, after = partitions.page(connection, twelve.cluster.id, after, limit, **chosen)
            found.append([(row.topic, row.partition) for row in rows])
            if after is None:
                return found


def test_pages_follow_each_other_without_gap_or_overlap(twelve: Watched) -> None:
    orders = [("orders", n) for n in range(12)]
    assert pages(twelve, 5, topic="orders") == [orders[:5], orders[5:10], orders[10:]]
    everywhere = [place for page in pages(twelve, 2) for place in page]
    assert everywhere == [("Orders.2", 0), *orders], (
        "topics are sorted by their bytes, whatever the collation of the database"
    )
    assert len(pages(twelve, 13)) == 1


def test_pages_can_be_filtered_by_lagging_partitions(twelve: Watched) -> None:
    standing = [("orders", n) for n in range(0, 12, 3)]
    assert pages(twelve, 3, topic="orders", lagging=True) == [standing[:3], standing[3:]]
    assert pages(twelve, 8, topic="orders", lagging=False) == [[("orders", n) for n in range(12) if n % 3]]
    assert pages(twelve, 8, topic="no such\0topic") == [[]]


def test_partitions_stalled_the_longest_come_first(twelve: Watched) -> None:
    with twelve.cluster.engine.connect() as connection:
        found = partitions.stalled(connection, twelve.cluster.id)
        assert [(row.topic, row.partition) for row in found[:3]] == [("orders", 9), ("orders", 6), ("orders", 3)]
        assert partitions.stalled(connection, twelve.cluster.id, limit=2) == found[:2]
        assert len(partitions.stall_clocks(connection, twelve.cluster.id)) == 5


def test_a_topic_with_an_impossible_name_is_not_found(twelve: Watched) -> None:
    with twelve.cluster.engine.connect() as connection:
        assert partitions.find(connection, twelve.cluster.id, "or\0ders", 0) is None
        assert partitions.find(connection, twelve.cluster.id, "orders", 99) is None


@only_on("sqlite")
def test_every_query_uses_an_index(twelve: Watched) -> None:
    number, after = twelve.cluster.id, ("orders", 3)

    def ask(connection: Connection) -> None:
        partitions.stall_clocks(connection, number)
        partitions.stalled(connection, number)
        partitions.find(connection, number, *after)
        partitions.page(connection, number, after, 5)
        partitions.page(connection, number, after, 5, lagging=True, topic="orders")
        partitions.entries(connection, number, [after, ("orders", 4)])
        partitions.groups(connection, number)

    steps = plans(twelve.cluster.engine, ask)
    assert not [step for step in steps if step.startswith("SCAN") and "CONSTANT" not in step and "subquery" not in step]
    wanted = ("cluster_id=? AND topic=? AND partition=?", "ix_data_partitions_stalled")
    assert all(any(index in step for step in steps) for index in wanted), steps

"""Open entries of a partition: the time of their first observation, and of their known end."""

from __future__ import annotations

import pytest

from service.store.queries import partitions
from tests.helpers.reasons import denied
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS
from tests.service.store.looks import Watched, described, entry, look, silent


@pytest.fixture
def watched(cluster: Cluster) -> Watched:
    """Seen at NOW_MS with 7 open from 100 on, the LSO, and 8 from 105."""
    watched = Watched(cluster)
    watched.see(look(NOW_MS), described(NOW_MS + 1, entry(7), entry(8, 105)))
    return watched


def test_an_entry_comes_back_field_by_field(watched: Watched) -> None:
    numbers = {"coordinator_epoch": -2, "last_timestamp_ms": -1, "records": 4, "bytes": 2**40}
    watched.see(described(NOW_MS + 2, entry(9, 107, 3, **numbers), is_whole=True, described=False))
    assert watched.entries() == [("orders", 0, 9, 3, 107, -2, -1, 4, 2**40, NOW_MS + 2, NOW_MS + 2)]


def test_it_is_the_same_one_as_long_as_it_has_its_producer_and_its_start(watched: Watched) -> None:
    watched.see(described(NOW_MS + 9, entry(7, epoch=4, last_timestamp_ms=NOW_MS), entry(8, 106)))
    assert watched.open() == {7: (NOW_MS + 1, 100), 8: (NOW_MS + 9, 106)}
    seven = watched.entries()[0]
    assert (seven.producer_epoch, seven.last_timestamp_ms, seven.seen_at_ms) == (4, NOW_MS, NOW_MS + 9)


@pytest.mark.parametrize(
    "shows", [{"described": True}, {"described": False, "is_whole": True}], ids=["described", "whole"]
)
def test_what_a_read_of_all_does_not_show_is_over(watched: Watched, shows: dict[str, bool]) -> None:
    watched.see(described(NOW_MS + 9, entry(8, 105), **shows))
    assert watched.open() == {8: (NOW_MS + 1, 105)}


def test_what_a_part_does_not_show_stays(watched: Watched) -> None:
    watched.see(described(NOW_MS + 9, entry(9, 103), described=False))
    assert watched.open() == {7: (NOW_MS + 1, 100), 8: (NOW_MS + 1, 105), 9: (NOW_MS + 9, 103)}


def test_a_read_that_could_not_read_anything_ends_nothing(watched: Watched) -> None:
    watched.see(described(NOW_MS + 9, described=False, first=None, why=denied("orders")))
    assert watched.open().keys() == {7, 8}
    assert watched.there().read_why == denied("orders")


def test_all_are_over_when_the_lso_reaches_the_high_watermark(watched: Watched) -> None:
    watched.see(look(NOW_MS + 2, 120, 120))
    assert watched.open() == {}


def test_a_read_from_before_the_lso_reached_the_watermark_opens_nothing(watched: Watched) -> None:
    watched.see(look(NOW_MS + 9, 120, 120), described(NOW_MS + 5, entry(9)))
    assert (watched.open(), watched.there().read_at_ms) == ({}, None)


def test_what_the_lso_has_passed_is_over(watched: Watched) -> None:
    """An LSO never passes an open transaction: the next read may be long in coming, or be denied."""
    watched.see(look(NOW_MS + 2, 105))
    assert watched.open() == {8: (NOW_MS + 1, 105)}
    watched.see(described(NOW_MS + 1, entry(7), entry(8, 105), entry(9, 107)))  # from before that look
    assert watched.open().keys() == {8, 9}


@pytest.mark.parametrize("lso", [103, 101], ids=["at", "below"])
def test_at_the_log_start_the_lso_says_nothing_of_what_lies_below(watched: Watched, lso: int) -> None:
    """Retention took the records of 7, its entry is still open, and Kafka does not let the LSO fall below the start."""
    watched.see(look(NOW_MS + 2, lso, log_start=103))
    assert watched.open().keys() == {7, 8}


def test_a_partition_that_does_not_answer_ends_nothing(watched: Watched) -> None:
    watched.see(silent(NOW_MS + 2))
    assert watched.open().keys() == {7, 8}


def test_a_topic_of_the_same_name_has_its_own(watched: Watched) -> None:
    watched.see(look(NOW_MS + 2, topic_id="T2"))
    assert watched.open() == {}
    watched.see(described(NOW_MS + 3, entry(7)))
    assert watched.open() == {}, "a read of the topic that was deleted"
    watched.see(described(NOW_MS + 3, entry(7), topic_id="T2"))
    assert watched.open() == {7: (NOW_MS + 3, 100)}


def test_entries_are_told_of_the_partitions_asked_for_by_place_and_start(watched: Watched) -> None:
    for partition in (1, 2):
        watched.see(look(NOW_MS, partition=partition))
        watched.see(described(NOW_MS, entry(2, 109), entry(1, 109), entry(3, 102), partition=partition))
    with watched.cluster.engine.connect() as connection:
        asked = [("orders", 2), ("orders", 1), ("orders", 2), ("none", 0)]
        found = partitions.entries(connection, watched.cluster.id, asked)
        assert [(one.partition, one.producer_id) for one in found] == [(p, pid) for p in (1, 2) for pid in (3, 1, 2)]
        assert partitions.entries(connection, watched.cluster.id, asked, limit=4) == found[:4]
        assert partitions.entries(connection, watched.cluster.id, []) == []

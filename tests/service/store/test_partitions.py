"""Tests of how samples of data partitions become rows. The newest sample of a partition is kept. A missing answer does
not end a stall."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from service.domain.partitions.facts import StallClock, observed_values
from service.domain.partitions.state import PartitionState
from service.domain.reasons.unread import ErrorText, NoBroker, NoLeader, UnresponsiveBroker
from service.domain.source_state import SourceName
from service.store import lease
from service.store.errors import LeaseLost
from service.store.queries import clusters, partitions
from service.store.writers.partitions import GONE_KEPT_MS
from tests.service.store.conftest import Cluster, take_over
from tests.service.store.logs import NOW_MS, everything
from tests.service.store.looks import FIRST, Watched, described, entry, look, silent


@pytest.fixture
def watched(cluster: Cluster) -> Watched:
    return Watched(cluster)


def status(watched: Watched) -> clusters.StatusRow:
    with watched.cluster.engine.connect() as connection:
        return clusters.statuses(connection, watched.cluster.id)[SourceName.PARTITIONS]


def counts(watched: Watched, fresh_since_ms: int = 0) -> partitions.PartitionCounts:
    with watched.cluster.engine.connect() as connection:
        return partitions.counts(connection, watched.cluster.id, fresh_since_ms)


def stalled(watched: Watched, limit: int = 100) -> list[int]:
    with watched.cluster.engine.connect() as connection:
        return [row.partition for row in partitions.stalled(connection, watched.cluster.id, limit)]


def clocks(watched: Watched) -> list[StallClock]:
    with watched.cluster.engine.connect() as connection:
        return partitions.stall_clocks(connection, watched.cluster.id)


def test_a_sample_and_a_read_come_back_field_by_field(watched: Watched) -> None:
    seen = look(NOW_MS, samples="[1]")
    read_ = described(NOW_MS + 5, entry(), is_whole=True, lag_bytes=4_096, why=UnresponsiveBroker(1))
    assert watched.see(seen, read_)
    shown: dict[str, Any] = {
        "read_at_ms": NOW_MS + 5,
        "read_lso": 100,
        "described": True,
        "is_whole": True,
        "lag_bytes": 4_096,
    }
    shown |= {"read_why": UnresponsiveBroker(1), "first": FIRST}
    assert watched.there() == PartitionState(**observed_values(seen), answered_at_ms=NOW_MS, **shown)
    free = look(NOW_MS, 110, partition=1)
    watched.see(free)
    assert watched.there(1) == PartitionState(**observed_values(free), answered_at_ms=NOW_MS)


def test_facts_older_than_the_stored_ones_are_left_out(watched: Watched) -> None:
    watched.see(look(NOW_MS + 1_000), described(NOW_MS + 1_001, entry(8)))
    before = everything(watched.cluster.engine, watched.cluster.id)
    assert not watched.see(look(NOW_MS, 90, 200), described(NOW_MS, entry(7)), trouble=ErrorText("old news"))
    assert everything(watched.cluster.engine, watched.cluster.id) == before


def test_a_batch_that_is_applied_again_changes_nothing(watched: Watched) -> None:
    batch = look(NOW_MS), described(NOW_MS + 1, entry(7), entry(8, 105))
    watched.see(*batch)
    before = everything(watched.cluster.engine, watched.cluster.id)
    watched.see(*batch)
    assert everything(watched.cluster.engine, watched.cluster.id) == before


def test_the_newer_of_two_samples_in_a_batch_stays_in_any_order(watched: Watched) -> None:
    watched.see(look(NOW_MS + 5, 110), look(NOW_MS, 100))
    assert watched.there().last_stable_offset == 110


def test_an_unchanged_partition_is_as_recent_as_the_last_sample(watched: Watched) -> None:
    watched.see(look(NOW_MS), look(NOW_MS, 110, partition=1))
    watched.see(look(NOW_MS + 20_000, partition=1), observed_at_ms=NOW_MS + 20_000)
    assert watched.there(0).observed_at_ms == NOW_MS + 20_000
    assert counts(watched, NOW_MS + 10_000)[:3] == (2, 2, 2)
    assert counts(watched, NOW_MS + 20_001)[:3] == (2, 0, 2)


def test_an_unresponsive_partition_keeps_numbers_and_stall_and_is_marked(watched: Watched) -> None:
    watched.see(look(NOW_MS, samples="[2]"), described(NOW_MS + 1, entry()))
    watched.see(observed_at_ms=NOW_MS + 4_000)
    watched.see(silent(NOW_MS + 5_000))
    row = watched.there()
    assert (row.why, row.leader, row.observed_at_ms) == (NoLeader(), -1, NOW_MS + 5_000)
    assert (row.log_start, row.last_stable_offset, row.high_watermark) == (10, 100, 110)
    assert (row.stalled_since_ms, row.samples, row.answered_at_ms) == (NOW_MS, "[2]", NOW_MS + 4_000)
    assert (row.read_at_ms, row.first) == (NOW_MS + 1, FIRST)
    watched.see(observed_at_ms=NOW_MS + 8_000)
    watched.see(silent(NOW_MS + 9_000, "still none"))
    assert watched.there().answered_at_ms == NOW_MS + 4_000
    assert watched.open() == {7: (NOW_MS + 1, 100)}
    assert (stalled(watched), counts(watched)[:3]) == ([0], (1, 0, 1))
    assert clocks(watched) == [StallClock("orders", 0, "T", 100, NOW_MS, "[2]")]


def test_a_partition_that_never_answered_has_no_numbers(watched: Watched) -> None:
    watched.see(silent(NOW_MS))
    row = watched.there()
    assert (row.last_stable_offset, row.answered_at_ms, row.stalled_since_ms) == (-1, None, None)
    watched.see(silent(NOW_MS + 1))
    assert watched.there().answered_at_ms is None


def test_a_log_start_that_was_not_requested_keeps_its_last_value(watched: Watched) -> None:
    watched.see(look(NOW_MS))
    watched.see(look(NOW_MS + 1, log_start=-1))
    assert watched.there().log_start == 10


def test_the_read_is_removed_when_the_lso_reaches_the_high_watermark(watched: Watched) -> None:
    watched.see(look(NOW_MS), described(NOW_MS + 1, entry()))
    watched.see(look(NOW_MS + 2, 101))
    assert watched.there().read_lso == 100
    watched.see(look(NOW_MS + 3, 110))
    assert watched.there() == PartitionState(**observed_values(look(NOW_MS + 3, 110)), answered_at_ms=NOW_MS + 3)
    assert (stalled(watched), clocks(watched)) == ([], [])


def test_a_read_of_an_unwatched_partition_is_left_out(watched: Watched) -> None:
    assert not watched.see(described(NOW_MS, entry()))
    assert watched.entries() == []


def test_after_a_full_batch_only_its_partitions_are_watched(watched: Watched) -> None:
    watched.see(look(NOW_MS), look(NOW_MS, partition=1), described(NOW_MS, entry()), not_covered=3)
    watched.see(look(NOW_MS + 1, partition=1), is_full=False, not_covered=4)
    assert counts(watched)[0] == 2
    watched.see(
        look(NOW_MS, partition=1), is_full=True, not_covered=9
    )  # an older batch proves nothing about other partitions
    assert counts(watched) == (2, 2, 2, 4, NOW_MS + 1, NOW_MS + 1)
    watched.see(look(NOW_MS + 2, partition=1), is_full=True, not_covered=5)
    assert (watched.row(0), watched.entries()) == (None, [])
    assert counts(watched) == (1, 1, 1, 5, NOW_MS + 2, NOW_MS + 2)


def test_a_partition_that_is_gone_is_remembered_for_a_while(watched: Watched) -> None:
    watched.see(look(NOW_MS), described(NOW_MS, entry()))
    watched.see(silent(NOW_MS + 1, "its topic was deleted", is_gone=True, stalled_since_ms=NOW_MS))
    assert (watched.row(), watched.entries(), stalled(watched), clocks(watched)) == (None, [], [], [])
    assert counts(watched)[:3] == (0, 0, 0)
    watched.see(look(NOW_MS + 2, partition=1), is_full=True)
    with watched.cluster.engine.connect() as connection:
        (gone,) = partitions.gone(connection, watched.cluster.id)
        ((left,), _) = partitions.page(connection, watched.cluster.id, None, 10)
    assert left == watched.there(1)
    assert (gone.topic_id, gone.observed_at_ms, gone.is_gone) == ("T", NOW_MS + 1, True)
    watched.see(look(NOW_MS + 3, topic_id="T2"), look(NOW_MS + 3, partition=1))
    assert watched.there().topic_id == "T2"
    watched.see(silent(NOW_MS + 4, is_gone=True))
    later_ms = NOW_MS + GONE_KEPT_MS + 5
    watched.see(look(later_ms, partition=1), is_full=True)
    with watched.cluster.engine.connect() as connection:
        assert partitions.gone(connection, watched.cluster.id) == []


def test_trouble_is_reported_beside_the_time_of_the_last_success(watched: Watched) -> None:
    watched.see(silent(NOW_MS), trouble=ErrorText("broker 2 did not\nanswer\0"))
    assert status(watched) == (SourceName.PARTITIONS, None, ErrorText("broker 2 did not answer\\x00"))
    watched.see(look(NOW_MS + 1))
    assert status(watched) == (SourceName.PARTITIONS, NOW_MS + 1, None)
    watched.writer.report_trouble(NoBroker("b:9092"))
    assert status(watched) == (SourceName.PARTITIONS, NOW_MS + 1, NoBroker("b:9092"))
    watched.see(look(NOW_MS + 3), trouble=UnresponsiveBroker(2))
    assert status(watched) == (SourceName.PARTITIONS, NOW_MS + 1, UnresponsiveBroker(2))
    assert counts(watched).observed_at_ms == NOW_MS + 3


def test_a_driver_that_was_replaced_writes_nothing_more(watched: Watched) -> None:
    watched.see(look(NOW_MS))
    before = everything(watched.cluster.engine, watched.cluster.id)
    assert take_over(watched.cluster.engine, watched.cluster.id) is not None
    with pytest.raises(LeaseLost):
        watched.see(look(NOW_MS + 1))
    with pytest.raises(LeaseLost):
        watched.writer.report_trouble(ErrorText("late"))
    assert everything(watched.cluster.engine, watched.cluster.id) == before


def test_a_batch_does_not_renew_the_lease(watched: Watched) -> None:
    """If a batch renewed the lease, one source could keep the lease while another source is stuck."""
    before = lease.newest_renewal(watched.cluster.engine, watched.cluster.id)
    watched.see(look(NOW_MS), now_ms=NOW_MS + 5_000)
    assert lease.newest_renewal(watched.cluster.engine, watched.cluster.id) == before


def test_rows_of_other_clusters_stay_unchanged(cluster: Cluster, new_cluster: Callable[[], Cluster]) -> None:
    other = Watched(new_cluster())
    other.see(look(NOW_MS), described(NOW_MS, entry()))
    before = everything(other.cluster.engine, other.cluster.id)
    Watched(cluster).see(look(NOW_MS + 9, partition=3), is_full=True)
    assert everything(other.cluster.engine, other.cluster.id) == before


@pytest.mark.parametrize(("changes", "is_full"), [(1_200, True), (1_200, False), (400, False)])
def test_many_partitions_are_stored_at_once(watched: Watched, changes: int, is_full: bool) -> None:
    """The store reads the rows of many partitions all at once, or of at most 100 partitions at a time. It writes new
    rows to PostgreSQL by COPY, or as single rows."""
    first = [look(NOW_MS, partition=n) for n in range(1_500)]
    watched.see(*first, described(NOW_MS + 1, entry(9_999), partition=201), is_full=True)
    changed = [look(NOW_MS + 5, 110 if n % 2 else 101, partition=n) for n in range(changes)]
    reads = [described(NOW_MS + 6, entry(n, 101), partition=n) for n in range(0, changes, 2)]
    watched.see(*changed, *reads, is_full=is_full)
    there = changes if is_full else 1_500
    assert counts(watched)[:3] == (there, there, there - changes // 2)
    assert [entry.producer_id for entry in watched.entries()] == list(range(0, changes, 2))

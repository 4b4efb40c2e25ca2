"""A range applies once, in order, or not at all."""

from __future__ import annotations

import pytest

from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Gap, Reject
from service.store import schema
from service.store.errors import OutOfSequence
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, batch, counters, entry, everything, read, row, rows, transaction

TWICE = [*transaction(0, start_ms=1), *transaction(3, start_ms=2)]


def test_a_batch_applied_twice_counts_once(cluster: Cluster) -> None:
    garbage = Reject(0, 0, 2, "unknown value version", b"pay", b"k", b"v")
    first = batch(TWICE, read(0, 6), rejects=[garbage])
    applied = cluster.writer.apply(first, NOW_MS)
    before = everything(cluster.engine, cluster.id)
    again = cluster.writer.apply(first, NOW_MS)
    assert (applied.ranges, applied.skipped, applied.rejects) == (1, 0, 1)
    assert (again.ranges, again.skipped, again.rejects) == (0, 1, 0)
    assert everything(cluster.engine, cluster.id) == before
    assert row(cluster.engine, cluster.id)["commits"] == 2


@pytest.mark.parametrize(
    ("lo", "hi"),
    [(3, 9), (5, 6 + 1), (7, 9), (7, 7), (6, 5)],
    ids=["overlap", "overlap by one", "hole", "ahead", "negative"],
)
def test_what_does_not_follow_is_refused_and_changes_nothing(cluster: Cluster, lo: int, hi: int) -> None:
    cluster.writer.apply(batch(TWICE, read(0, 6)), NOW_MS)
    before = everything(cluster.engine, cluster.id)
    fine = batch(transaction(0, b"other", start_ms=9), read(0, 3, partition=1))
    with pytest.raises(OutOfSequence, match=rf"partition 0: range {lo}-{hi} .* next_offset 6"):
        cluster.writer.apply(batch([], read(lo, hi), fine), NOW_MS)
    assert everything(cluster.engine, cluster.id) == before


def test_another_topic_under_the_same_generation_is_refused(cluster: Cluster) -> None:
    cluster.writer.apply(batch(TWICE, read(0, 6)), NOW_MS)
    with pytest.raises(OutOfSequence, match="another log"):
        cluster.writer.apply(batch([], read(6, 6, topic_id="U")), NOW_MS)


def test_an_older_generation_is_refused(cluster: Cluster) -> None:
    cluster.writer.apply(batch([], read(0, 6, generation=2)), NOW_MS)
    with pytest.raises(OutOfSequence, match="generation 1"):
        cluster.writer.apply(batch([], read(6, 7, generation=1)), NOW_MS)


def test_a_partition_twice_or_records_without_a_range_are_refused(cluster: Cluster) -> None:
    with pytest.raises(OutOfSequence, match="twice"):
        cluster.writer.apply(batch([], read(0, 1), batch([], read(1, 2))), NOW_MS)
    with pytest.raises(OutOfSequence, match=r"\[4\]"):
        cluster.writer.apply(batch([], read(0, 1))._replace(runs=batch(TWICE, read(0, 6, partition=4)).runs), NOW_MS)


def test_a_heartbeat_refreshes_the_view_and_nothing_else(cluster: Cluster) -> None:
    cluster.writer.apply(batch(TWICE, read(0, 6)), NOW_MS)
    cluster.writer.apply(batch([], read(6, 6, end=6, asked_at_ms=NOW_MS + 400)), NOW_MS + 500)
    position = cluster.positions()[0]
    assert (position.next_offset, position.end_asked_at_ms, position.read_at_ms) == (6, NOW_MS + 400, NOW_MS + 500)
    assert (position.records, position.bytes) == (6, 600)
    assert rows(cluster.engine, schema.source_status, cluster.id)[0]["as_of_ms"] == NOW_MS + 500


def test_a_clock_that_was_set_back_leaves_no_view_that_never_ages(cluster: Cluster) -> None:
    cluster.writer.apply(batch(TWICE, read(0, 6)), NOW_MS)
    cluster.writer.apply(batch([], read(6, 6)), NOW_MS - 3_600_000)
    assert rows(cluster.engine, schema.source_status, cluster.id)[0]["as_of_ms"] == NOW_MS - 3_600_000


def test_replayed_and_new_ranges_may_come_together(cluster: Cluster) -> None:
    cluster.writer.apply(batch(TWICE, read(0, 6)), NOW_MS)
    mixed = batch(TWICE, read(0, 6), batch(transaction(0, b"other", start_ms=9), read(0, 3, partition=1)))
    applied = cluster.writer.apply(mixed, NOW_MS)
    assert (applied.ranges, applied.skipped, applied.ended.commits) == (1, 1, 1)
    assert counters(cluster.engine, cluster.id)["commits"] == 3


def test_retention_passing_us_leaves_a_gap_and_reading_goes_on(cluster: Cluster) -> None:
    cluster.writer.apply(batch(TWICE, read(0, 6)), NOW_MS)
    passed = batch(transaction(20, start_ms=5), read(20, 23, gap=Gap(6, 20, "retention")))
    cluster.writer.apply(passed, NOW_MS)
    cluster.writer.apply(passed, NOW_MS)
    (gap,) = rows(cluster.engine, schema.data_gaps, cluster.id)
    assert (gap["from_offset"], gap["to_offset"], gap["reason"], gap["seen_at_ms"]) == (6, 20, "retention", NOW_MS)
    assert cluster.positions()[0].next_offset == 23
    assert row(cluster.engine, cluster.id)["commits"] == 3


def test_a_gap_that_does_not_begin_where_we_stand_is_refused(cluster: Cluster) -> None:
    cluster.writer.apply(batch(TWICE, read(0, 6)), NOW_MS)
    with pytest.raises(OutOfSequence, match="gap 9-20"):
        cluster.writer.apply(batch([], read(20, 23, gap=Gap(9, 20, "retention"))), NOW_MS)


def test_a_recreated_topic_expires_what_was_there_and_keeps_its_counts(cluster: Cluster) -> None:
    stale = batch([entry(3, states.ONGOING, b"gone")], read(3, 4, partition=1))
    cluster.start({0: 0, 1: 3}, log_start=0)
    cluster.writer.apply(batch(TWICE, read(0, 6), batch([], read(0, 3, partition=1))), NOW_MS)
    cluster.writer.apply(stale, NOW_MS)
    new = batch(
        transaction(0, start_ms=9, pid=8),
        read(0, 3, generation=1, topic_id="U", gap=Gap(6, 6, "recreated")),
        batch([], read(0, 0, partition=1, generation=1, topic_id="U", gap=Gap(4, 4, "recreated"))),
    )
    cluster.writer.apply(new, NOW_MS)
    cluster.writer.apply(new, NOW_MS)
    ids = {r["transactional_id"]: r for r in rows(cluster.engine, schema.transactional_ids, cluster.id)}
    assert (ids[b"gone"]["state"], ids[b"gone"]["started_at_ms"]) == (states.EXPIRED, None)
    assert row(cluster.engine, cluster.id) | {"generation": 1, "offset": 2, "commits": 3, "producer_id": 8} == row(
        cluster.engine, cluster.id
    )
    assert rows(cluster.engine, schema.open_participants, cluster.id) == []
    assert counters(cluster.engine, cluster.id)["commits"] == 3
    assert [r["producer_id"] for r in rows(cluster.engine, schema.producer_ids, cluster.id)] == [7, 7, 8]
    assert len(rows(cluster.engine, schema.data_gaps, cluster.id)) == 2
    assert {p.generation for p in cluster.positions().values()} == {1}


def test_the_common_part_of_a_diverged_log_is_read_but_not_counted_again(cluster: Cluster) -> None:
    cluster.writer.apply(batch(TWICE, read(0, 6)), NOW_MS)
    common = batch(TWICE[:3], read(0, 3, generation=1, gap=Gap(3, 6, "diverged")))
    cluster.writer.apply(common, NOW_MS)
    cluster.writer.apply(batch(transaction(3, start_ms=3), read(3, 6, generation=1)), NOW_MS)
    assert counters(cluster.engine, cluster.id)["commits"] == 3
    assert (row(cluster.engine, cluster.id)["start_ms"], row(cluster.engine, cluster.id)["commits"]) == (3, 3)


def test_a_log_that_was_left_alone_too_long_is_read_again_and_counted_once(cluster: Cluster) -> None:
    cluster.writer.apply(batch(TWICE, read(0, 6)), NOW_MS)
    again = batch([entry(5, states.COMPLETE_COMMIT)], read(0, 6, generation=1, gap=Gap(6, 6, "away")))
    cluster.writer.apply(again, NOW_MS)
    cluster.writer.apply(batch(transaction(6, start_ms=3), read(6, 9, generation=1)), NOW_MS)
    assert counters(cluster.engine, cluster.id)["commits"] == 3
    assert row(cluster.engine, cluster.id)["commits"] == 3


def test_a_range_across_the_border_of_counting_is_refused(cluster: Cluster) -> None:
    cluster.start({0: 3})
    with pytest.raises(OutOfSequence, match="straddles counted_from 3"):
        cluster.writer.apply(batch(TWICE, read(0, 6)), NOW_MS)

"""Tests that a range of the transaction log is applied once and in order, or not at all. Also tests where reading and
counting begin, and the status of a cluster without a transaction log."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import NoTransactionLog, TransactionsSeen
from service.domain.source_state import SourceName
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Gap, LogBatch, RangeRead, Reject
from service.domain.transaction_log.states import TOPIC
from service.store import schema
from service.store.errors import OutOfSequence
from service.store.progress import PartitionStart, start_positions
from service.store.queries import clusters
from service.store.queries.clusters import StatusRow
from service.store.queries.pipeline import APPEARS_WITHIN_MS
from service.views.partitions import judged as judged_partitions
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, batch, counters, entry, everything, read, row, rows, transaction
from tests.service.store.looks import Watched, described, look
from tests.service.store.looks import entry as open_entry

TWICE = [*transaction(0, start_ms=1), *transaction(3, start_ms=2)]


def test_a_batch_applied_twice_counts_once(cluster: Cluster) -> None:
    garbage = Reject(0, 0, 2, "unknown value version", b"pay", b"k", b"v")
    first = batch(TWICE, read(0, 6), rejects=[garbage])
    cluster.writer.apply(first, NOW_MS)
    before = everything(cluster.engine, cluster.id)
    cluster.writer.apply(first, NOW_MS)
    assert everything(cluster.engine, cluster.id) == before
    assert row(cluster.engine, cluster.id)["commits"] == 2


@pytest.mark.parametrize(
    ("span", "says"),
    [
        pytest.param(read(3, 9, generation=2), r"partition 0: range 3-9 .* next_offset 6", id="overlap"),
        pytest.param(read(5, 7, generation=2), r"partition 0: range 5-7 .* next_offset 6", id="overlap by one"),
        pytest.param(read(7, 9, generation=2), r"partition 0: range 7-9 .* next_offset 6", id="hole"),
        pytest.param(read(7, 7, generation=2), r"partition 0: range 7-7 .* next_offset 6", id="ahead"),
        pytest.param(read(6, 5, generation=2), r"partition 0: range 6-5 .* next_offset 6", id="negative"),
        pytest.param(read(6, 6, generation=2, topic_id="U"), "another log", id="another topic, same generation"),
        pytest.param(read(6, 7, generation=1), "generation 1", id="an older generation"),
        pytest.param(read(20, 23, generation=2, gap=Gap(9, 20, "retention")), "gap 9-20", id="a gap further on"),
    ],
)
def test_a_range_out_of_sequence_is_refused_and_changes_nothing(cluster: Cluster, span: RangeRead, says: str) -> None:
    cluster.writer.apply(batch(TWICE, read(0, 6, generation=2)), NOW_MS)
    before = everything(cluster.engine, cluster.id)
    fine = batch(transaction(0, b"other", start_ms=9), read(0, 3, partition=1))
    with pytest.raises(OutOfSequence, match=says):
        cluster.writer.apply(batch([], span, fine), NOW_MS)
    assert everything(cluster.engine, cluster.id) == before


def test_a_repeated_partition_or_records_without_a_range_are_refused(cluster: Cluster) -> None:
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


def test_a_view_has_the_time_of_a_clock_that_was_set_back(cluster: Cluster) -> None:
    cluster.writer.apply(batch(TWICE, read(0, 6)), NOW_MS)
    cluster.writer.apply(batch([], read(6, 6)), NOW_MS - 3_600_000)
    assert rows(cluster.engine, schema.source_status, cluster.id)[0]["as_of_ms"] == NOW_MS - 3_600_000


def test_replayed_and_new_ranges_may_come_together(cluster: Cluster) -> None:
    cluster.writer.apply(batch(TWICE, read(0, 6)), NOW_MS)
    mixed = batch(TWICE, read(0, 6), batch(transaction(0, b"other", start_ms=9), read(0, 3, partition=1)))
    cluster.writer.apply(mixed, NOW_MS)
    assert counters(cluster.engine, cluster.id)["commits"] == 3


def test_records_deleted_before_the_read_are_a_gap_and_reading_continues(cluster: Cluster) -> None:
    cluster.writer.apply(batch(TWICE, read(0, 6)), NOW_MS)
    passed = batch(transaction(20, start_ms=5), read(20, 23, gap=Gap(6, 20, "retention")))
    cluster.writer.apply(passed, NOW_MS)
    cluster.writer.apply(passed, NOW_MS)
    (gap,) = rows(cluster.engine, schema.data_gaps, cluster.id)
    assert (gap["from_offset"], gap["to_offset"], gap["reason"], gap["seen_at_ms"]) == (6, 20, "retention", NOW_MS)
    assert cluster.positions()[0].next_offset == 23
    assert row(cluster.engine, cluster.id)["commits"] == 3


def test_a_recreated_topic_expires_its_ids_and_keeps_their_counts(cluster: Cluster) -> None:
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


def test_a_log_unread_for_too_long_is_read_again_and_counted_once(cluster: Cluster) -> None:
    cluster.writer.apply(batch(TWICE, read(0, 6)), NOW_MS)
    again = batch([entry(5, states.COMPLETE_COMMIT)], read(0, 6, generation=1, gap=Gap(6, 6, "away")))
    cluster.writer.apply(again, NOW_MS)
    cluster.writer.apply(batch(transaction(6, start_ms=3), read(6, 9, generation=1)), NOW_MS)
    assert counters(cluster.engine, cluster.id)["commits"] == 3
    assert row(cluster.engine, cluster.id)["commits"] == 3


def test_a_range_across_the_border_of_counting_is_refused(cluster: Cluster) -> None:
    cluster.start({0: 3})
    with pytest.raises(OutOfSequence, match="begins below counted_from 3 and ends above it"):
        cluster.writer.apply(batch(TWICE, read(0, 6)), NOW_MS)


def test_the_very_first_start_counts_from_the_end_and_reads_from_the_start(cluster: Cluster) -> None:
    cluster.start({0: 6, 1: 9}, log_start=3)
    found = cluster.positions()
    assert [(p.next_offset, p.counted_from) for p in found.values()] == [(3, 6), (3, 9)]
    with cluster.engine.connect() as connection:
        assert connection.scalar(select(schema.clusters.c.counted_since_ms)) == NOW_MS


def test_a_later_start_keeps_positions_and_counts_new_partitions_fully(cluster: Cluster) -> None:
    cluster.start({0: 6})
    cluster.writer.apply(batch([*transaction(0, start_ms=1), *transaction(3, start_ms=2)], read(0, 6)), NOW_MS)
    starts = [PartitionStart(p, "T", 1, 0, 0, 100) for p in (0, 1)]
    found = start_positions(cluster.engine, cluster.lease, SourceName.TRANSACTION_LOG, TOPIC, starts, NOW_MS + 99)
    assert [(p.next_offset, p.counted_from) for p in found.values()] == [(6, 6), (0, 0)]
    assert found == cluster.positions()
    with cluster.engine.connect() as connection:
        assert connection.scalar(select(schema.clusters.c.counted_since_ms)) == NOW_MS


def test_a_topic_created_after_the_first_start_counts_fully(cluster: Cluster) -> None:
    cluster.start({})
    cluster.start({0: 3})
    cluster.writer.apply(batch(transaction(0, start_ms=1), read(0, 3)), NOW_MS)
    assert counters(cluster.engine, cluster.id)["commits"] == 1


def test_records_below_the_counting_offset_set_the_state_but_no_counter(cluster: Cluster) -> None:
    old, new = transaction(0, start_ms=1), transaction(3, start_ms=2)
    cluster.start({0: 5})
    cluster.writer.apply(batch([*old, *new[:2]], read(0, 5)), NOW_MS)
    before = row(cluster.engine, cluster.id)
    assert (before["commits"], before["last_outcome"]) == (0, 2)
    assert counters(cluster.engine, cluster.id) == {}
    cluster.writer.apply(
        batch(new[2:], read(5, 6)), NOW_MS
    )  # the transaction ends at or above `counted_from`, so it is counted
    assert row(cluster.engine, cluster.id)["commits"] == 1
    assert counters(cluster.engine, cluster.id) == {"commits": 1}


OPEN = NoTransactionLog(TransactionsSeen.OPEN)
LISTED = NoTransactionLog(TransactionsSeen.LISTED)


def nothing_listed(cluster: Cluster, now_ms: int, trouble: Reason | None = None) -> StatusRow:
    """Notes in the store that the brokers listed no transaction log at `now_ms`, for the reason `trouble` if there is
    one. Returns the resulting status of the transaction log."""
    cluster.writer.apply(LogBatch((), (), (), trouble), now_ms)
    with cluster.engine.connect() as connection:
        return clusters.statuses(connection, cluster.id)[SourceName.TRANSACTION_LOG]


def unread(cluster: Cluster) -> Reason | None:
    with cluster.engine.connect() as connection:
        return judged_partitions.log_unread_reason(connection, cluster.id)


def test_a_cluster_without_log_and_transactions_has_no_trouble(cluster: Cluster) -> None:
    assert nothing_listed(cluster, NOW_MS) == (SourceName.TRANSACTION_LOG, NOW_MS, None)
    assert unread(cluster) is None


def test_an_open_transaction_shows_that_there_will_be_no_log(cluster: Cluster) -> None:
    watched = Watched(cluster)
    watched.see(look(NOW_MS), described(NOW_MS, open_entry()))
    early_ms = NOW_MS + APPEARS_WITHIN_MS - 1
    assert nothing_listed(cluster, early_ms).error is None, "the first transaction may have created the log just now"
    assert nothing_listed(cluster, early_ms + 1) == (SourceName.TRANSACTION_LOG, early_ms + 1, OPEN)
    assert unread(cluster) == OPEN
    watched.see(look(NOW_MS + 60_000, lso=110))
    assert watched.entries() == []
    assert nothing_listed(cluster, NOW_MS + 60_000).error == OPEN, (
        "the end of the open transaction does not remove the error that the transaction proved"
    )


def test_listed_transactions_are_reported_until_the_log_appears(cluster: Cluster) -> None:
    assert nothing_listed(cluster, NOW_MS, LISTED) == (SourceName.TRANSACTION_LOG, NOW_MS, LISTED)
    assert nothing_listed(cluster, NOW_MS + 1_000) == (SourceName.TRANSACTION_LOG, NOW_MS + 1_000, LISTED)
    cluster.start({0: 0})
    cluster.writer.apply(batch([entry(0, states.ONGOING)], read(0, 1)), NOW_MS + 2_000)
    with cluster.engine.connect() as connection:
        assert clusters.statuses(connection, cluster.id)[SourceName.TRANSACTION_LOG].error is None
    assert unread(cluster) is None


def test_a_log_that_was_read_before_is_not_missing(cluster: Cluster) -> None:
    cluster.start({0: 0})
    watched = Watched(cluster)
    watched.see(look(NOW_MS), described(NOW_MS, open_entry()))
    assert nothing_listed(cluster, NOW_MS + 2 * APPEARS_WITHIN_MS).error is None

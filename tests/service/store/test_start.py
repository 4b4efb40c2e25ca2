"""The positions at which reading and counting begin."""

from __future__ import annotations

from sqlalchemy import select

from service.domain.source_state import SourceName
from service.domain.transaction_log.states import TOPIC
from service.store import schema
from service.store.progress import PartitionStart, start_positions
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, batch, counters, read, row, transaction


def test_the_very_first_start_counts_from_the_end_and_reads_from_the_start(cluster: Cluster) -> None:
    cluster.start({0: 6, 1: 9}, log_start=3)
    found = cluster.positions()
    assert [(p.next_offset, p.counted_from) for p in found.values()] == [(3, 6), (3, 9)]
    with cluster.engine.connect() as connection:
        assert connection.scalar(select(schema.clusters.c.counted_since_ms)) == NOW_MS


def test_a_later_start_keeps_what_is_known_and_counts_new_partitions_whole(cluster: Cluster) -> None:
    cluster.start({0: 6})
    cluster.writer.apply(batch([*transaction(0, start_ms=1), *transaction(3, start_ms=2)], read(0, 6)), NOW_MS)
    starts = [PartitionStart(p, "T", 1, 0, 0, 100) for p in (0, 1)]
    found = start_positions(cluster.engine, cluster.lease, SourceName.TRANSACTION_LOG, TOPIC, starts, NOW_MS + 99)
    assert [(p.next_offset, p.counted_from) for p in found.values()] == [(6, 6), (0, 0)]
    assert found == cluster.positions()
    with cluster.engine.connect() as connection:
        assert connection.scalar(select(schema.clusters.c.counted_since_ms)) == NOW_MS


def test_a_topic_that_comes_after_the_first_start_counts_whole(cluster: Cluster) -> None:
    cluster.start({})
    cluster.start({0: 3})
    cluster.writer.apply(batch(transaction(0, start_ms=1), read(0, 3)), NOW_MS)
    assert counters(cluster.engine, cluster.id)["commits"] == 1


def test_what_lies_below_feeds_state_but_no_counter(cluster: Cluster) -> None:
    old, new = transaction(0, start_ms=1), transaction(3, start_ms=2)
    cluster.start({0: 5})
    cluster.writer.apply(batch([*old, *new[:2]], read(0, 5)), NOW_MS)
    before = row(cluster.engine, cluster.id)
    assert (before["commits"], before["last_outcome"]) == (0, 2)
    assert counters(cluster.engine, cluster.id) == {}
    cluster.writer.apply(batch(new[2:], read(5, 6)), NOW_MS)  # its end lies above: counted
    assert row(cluster.engine, cluster.id)["commits"] == 1
    assert counters(cluster.engine, cluster.id) == {"commits": 1}

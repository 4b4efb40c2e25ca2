"""A topic that was created again with fewer partitions leaves nothing of those that are no more."""

from __future__ import annotations

from service.domain.transaction_log import states
from service.domain.transaction_log.facts import NO_LEADER, Gap, LogBatch, RangeRead
from service.store import schema
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, batch, counters, entry, everything, read, row, rows, transaction


def gone(partition: int, next_offset: int) -> RangeRead:
    nothing = read(0, 0, partition=partition, generation=1, topic_id="U", gap=Gap(0, next_offset, "recreated"))
    return nothing._replace(leader=NO_LEADER, leader_epoch=-1)


def anew(partition: int, next_offset: int, hi: int = 0) -> RangeRead:
    return read(0, hi, partition=partition, generation=1, topic_id="U", gap=Gap(0, next_offset, "recreated"))


def read_three_partitions(cluster: Cluster) -> None:
    cluster.start({0: 0, 1: 0, 2: 0})
    here = batch(transaction(0, b"stays", start_ms=1), read(0, 3))
    there = batch([entry(0, states.ONGOING, b"moves", pid=8)], read(0, 1, partition=1))
    lost = [*transaction(0, b"ended", start_ms=2, pid=9), entry(3, states.ONGOING, b"open", pid=10)]
    cluster.writer.apply(batch(lost, read(0, 4, partition=2), here, there), NOW_MS)


def test_partitions_that_are_no_more_are_void_and_their_positions_go(cluster: Cluster) -> None:
    read_three_partitions(cluster)
    moved = batch(transaction(0, b"moves", start_ms=5, pid=11), anew(0, 3, 3))
    after = moved._replace(ranges=(*moved.ranges, gone(1, 1), gone(2, 4)))
    cluster.writer.apply(after, NOW_MS + 1)
    assert list(cluster.positions()) == [0]
    found = {r["transactional_id"]: r for r in rows(cluster.engine, schema.transactional_ids, cluster.id)}
    assert {name: (r["partition"], r["state"], r["started_at_ms"]) for name, r in found.items()} == {
        b"stays": (0, states.EXPIRED, None),
        b"moves": (0, states.COMPLETE_COMMIT, None),
        b"ended": (2, states.EXPIRED, None),
        b"open": (2, states.EXPIRED, None),
    }
    assert found[b"ended"]["commits"] == 1, "counts span all lives of an id"
    assert rows(cluster.engine, schema.open_participants, cluster.id) == []
    counts = rows(cluster.engine, schema.coordinator_states, cluster.id)
    assert {(r["partition"], r["state"]): r["ids"] for r in counts if r["ids"]} == {
        (0, states.EXPIRED): 1,
        (0, states.COMPLETE_COMMIT): 1,
        (2, states.EXPIRED): 2,
    }
    reported = rows(cluster.engine, schema.data_gaps, cluster.id)
    assert sorted((r["partition"], r["from_offset"], r["to_offset"], r["reason"]) for r in reported) == [
        (0, 0, 3, "recreated"),
        (1, 0, 1, "recreated"),
        (2, 0, 4, "recreated"),
    ]
    assert counters(cluster.engine, cluster.id)["commits"] == 3
    before = everything(cluster.engine, cluster.id)
    assert cluster.writer.apply(after, NOW_MS + 1).skipped == 3
    assert everything(cluster.engine, cluster.id) == before


def test_what_was_read_of_a_log_never_falls(cluster: Cluster) -> None:
    """Or Prometheus would take the lower sum for a counter that began again at 0."""
    read_three_partitions(cluster)

    def sums() -> tuple[int, int]:
        positions = cluster.positions().values()
        return sum(p.records for p in positions), sum(p.bytes for p in positions)

    assert sums() == (8, 800)
    cluster.writer.apply(LogBatch((anew(0, 3), gone(1, 1), gone(2, 4)), (), ()), NOW_MS)
    assert sums() == (8, 800)
    cluster.writer.apply(batch(transaction(0, start_ms=1), read(0, 3, generation=1, topic_id="U")), NOW_MS)
    assert sums() == (11, 1_100)


def test_a_partition_that_comes_back_is_read_from_its_start_and_stays(cluster: Cluster) -> None:
    read_three_partitions(cluster)
    end = LogBatch((anew(0, 3), anew(1, 1), gone(2, 4)), (), ())
    cluster.writer.apply(end, NOW_MS)
    cluster.writer.apply(batch(transaction(0, b"open", start_ms=7), read(0, 3, partition=2, topic_id="U")), NOW_MS)
    before = everything(cluster.engine, cluster.id)
    assert cluster.writer.apply(LogBatch((gone(2, 4),), (), ()), NOW_MS).skipped == 1
    assert everything(cluster.engine, cluster.id)["log_partitions"] == before["log_partitions"]
    assert (row(cluster.engine, cluster.id, b"open")["state"], cluster.positions()[2].next_offset) == (
        states.COMPLETE_COMMIT,
        3,
    )


def test_it_ends_once_also_where_the_batch_goes_in_pieces(cluster: Cluster) -> None:
    """More ids below `counted_from` than one transaction takes."""
    cluster.start({0: 9, 2: 0})
    cluster.writer.apply(batch([entry(0, states.ONGOING, b"open")], read(0, 1, partition=2)), NOW_MS)
    history = [e for n in range(3) for e in transaction(3 * n, b"id-%d" % n, start_ms=1)]
    more = [entry(8, states.ONGOING, b"id-%d" % n) for n in range(3, 6)]
    cluster.writer.apply(batch([*history, *more], read(0, 9), LogBatch((gone(2, 1),), (), ())), NOW_MS)
    assert list(cluster.positions()) == [0]
    assert row(cluster.engine, cluster.id, b"open")["state"] == states.EXPIRED
    assert len(rows(cluster.engine, schema.data_gaps, cluster.id)) == 1
    assert cluster.positions()[0].records == 10

"""Tests of a transaction log whose number of partitions changed. Records are left behind in former partitions of their
id, or partitions were removed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.domain.transaction_log import states
from service.domain.transaction_log.coordinator_partition import coordinator_partition
from service.domain.transaction_log.facts import NO_LEADER, Gap, LogBatch, RangeRead
from service.store import schema
from service.store.queries.owners import partition_count_of
from tests.service.store.conftest import Cluster, only_on
from tests.service.store.logs import (
    NOW_MS,
    Entry,
    as_lone,
    batch,
    counters,
    entry,
    everything,
    read,
    row,
    rows,
    transaction,
)

IDS = (b"exp-a", b"exp-b", b"exp-c", b"pay-1", b"bytes \xff")
SIZES = (5, 8, 11)
"""The log first has 5 partitions, then 8, then 11. Some ids hash to the same partition of 11 as of 5."""

TABLES = (
    schema.transactional_ids,
    schema.left_behind_records,
    schema.open_participants,
    schema.producer_ids,
    schema.coordinator_states,
)
COUNTED = ("commits", "aborts_client", "aborts_timeout", "aborts_fenced", "aborts_admin", "aborts_unattributed")
OF_ABORTS = (
    *("abort_offset", "abort_cause", "abort_confidence", "abort_is_open", "abort_completed_ms", "abort_counts"),
    "settles_at_ms",
)

Logs = dict[int, list[Entry]]

LIVES = st.sampled_from(
    (
        (),
        (states.EMPTY,),
        (states.ONGOING,),
        (states.ONGOING, states.PREPARE_COMMIT),
        (states.ONGOING, states.PREPARE_COMMIT, states.COMPLETE_COMMIT),
        (states.ONGOING, states.PREPARE_COMMIT, states.COMPLETE_COMMIT, states.ONGOING),
        (states.EMPTY, states.EXPIRED),
        (states.UNKNOWN,),
    )
)


@st.composite
def logs(draw: st.DrawFn) -> Logs:
    """Draws the logs of all partitions, while the number of partitions grows (SIZES). For each number of partitions, an
    id may have records in the partition to which it then hashes, under a new producer id. The id that is not UTF-8
    hashes to no partition. Its partition is chosen by its position in IDS."""
    found: Logs = {partition: [] for partition in range(max(SIZES))}
    for era, size in enumerate(SIZES):
        for number, name in enumerate(IDS):
            home = coordinator_partition(name, size)
            of_partition = found[number % size if home is None else home]
            for state in draw(LIVES):
                offset = len(of_partition)
                at_ms = NOW_MS + 100_000 * era + 1_000 * number + offset
                pid = 10 * era + number
                of_partition.append(entry(offset, state, name, pid=pid, at_ms=at_ms, start_ms=NOW_MS + pid))
    return found


@st.composite
def cuts(draw: st.DrawFn, found: Logs) -> list[tuple[int, int, int]]:
    """Draws ranges (partition, lo, hi) of the logs: in order within a partition, and with the partitions
    interleaved."""
    waiting = dict.fromkeys(found, 0)
    ranges = []
    while waiting:
        partition = draw(st.sampled_from(sorted(waiting)))
        lo, end = waiting[partition], len(found[partition])
        hi = draw(st.integers(min(lo + 1, end), end))
        ranges.append((partition, lo, hi))
        if hi == end:
            del waiting[partition]
        else:
            waiting[partition] = hi
    return ranges


def follow(cluster: Cluster, found: Logs, ranges: Sequence[tuple[int, int, int]]) -> None:
    """Reads the ranges of a cluster that had no transaction log at its first start. Each partition is added when it is
    first read."""
    cluster.start({})
    for partition, lo, hi in ranges:
        cluster.writer.apply(batch(found[partition][lo:hi], read(lo, hi, partition=partition)), NOW_MS)


def read_first(cluster: Cluster, found: Logs, partitions: Sequence[int]) -> None:
    """Reads logs that existed at the first start, one partition after the other.

    If a partition has only one run for each id, and no steps, it is read as columns.
    """
    cluster.start({partition: len(log) for partition, log in found.items()})
    for partition in partitions:
        log = found[partition]
        reported = batch(log, read(0, len(log), partition=partition, counts=False))
        ids = [run.transactional_id for run in reported.runs]
        is_lone = ids and len(set(ids)) == len(ids) and not reported.steps
        cluster.writer.apply(as_lone(reported) if is_lone else reported, NOW_MS)


def stored(cluster: Cluster, *leave_out: str) -> list[list[dict[str, Any]]]:
    tables = [rows(cluster.engine, table, cluster.id, *leave_out) for table in TABLES]
    tables[-1] = [table for table in tables[-1] if table["ids"]]
    return tables


@only_on("sqlite")  # the order depends on the writer, not on the database
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_the_rows_do_not_depend_on_the_order_of_reading(
    new_cluster: Callable[[], Cluster], data: st.DataObject
) -> None:
    found = data.draw(logs())
    first, second, third, fourth = (new_cluster() for _ in range(4))
    follow(first, found, data.draw(cuts(found)))
    follow(second, found, data.draw(cuts(found)))
    assert stored(first, *OF_ABORTS) == stored(second, *OF_ABORTS)
    read_first(third, found, data.draw(st.permutations(sorted(found))))
    read_first(fourth, found, sorted(found))
    # only a first read in columns leaves ids to a later walk
    assert stored(third, "is_examined") == stored(fourth, "is_examined")
    but_for = (*COUNTED, *OF_ABORTS, "last_outcome", "is_examined")
    assert stored(first, *but_for) == stored(third, *but_for)


def test_the_live_record_in_the_partition_of_the_coordinator_counts(cluster: Cluster) -> None:
    """`exp-c` was in partition 2 when the log had 5 partitions. It started again in partition 3 of 8. The old record is
    read last, and does not count."""
    cluster.start(dict.fromkeys(range(8), 0))
    new = batch(transaction(0, b"exp-c", start_ms=9, pid=1000), read(0, 3, partition=3))
    cluster.writer.apply(new, NOW_MS)
    old = batch([entry(0, states.ONGOING, b"exp-c", pid=1, at_ms=NOW_MS)], read(0, 1, partition=2))
    cluster.writer.apply(old, NOW_MS)
    found = row(cluster.engine, cluster.id, b"exp-c")
    assert (found["partition"], found["producer_id"], found["state"]) == (3, 1000, states.COMPLETE_COMMIT)
    (left,) = rows(cluster.engine, schema.left_behind_records, cluster.id)
    assert (left["partition"], left["producer_id"], left["state"]) == (2, 1, states.ONGOING)
    assert left["participants"] == '[["orders", 0], ["orders", 3]]'
    assert rows(cluster.engine, schema.open_participants, cluster.id) == []


def test_counts_span_the_partitions_of_an_id(cluster: Cluster) -> None:
    cluster.start({})
    cluster.writer.apply(batch(transaction(0, b"exp-c", start_ms=5), read(0, 3, partition=2)), NOW_MS)
    cluster.writer.apply(batch(transaction(0, b"exp-c", start_ms=9, pid=8), read(0, 3, partition=3)), NOW_MS)
    cluster.writer.apply(batch([], read(0, 0, partition=7)), NOW_MS)
    cluster.writer.apply(batch(transaction(3, b"exp-c", start_ms=6), read(3, 6, partition=2)), NOW_MS)
    found = row(cluster.engine, cluster.id, b"exp-c")
    assert (found["partition"], found["commits"]) == (3, 3)


def test_a_record_counts_again_if_more_partitions_bring_its_id_back(cluster: Cluster) -> None:
    """The id hashes to partition 2 if the log has 5 partitions, to 3 if it has 8, and to 2 if it has 11."""
    name = next(b"id-%d" % n for n in range(1000) if _homes(b"id-%d" % n) == (2, 3, 2))
    cluster.start(dict.fromkeys(range(5), 0))
    cluster.writer.apply(batch(transaction(0, name, start_ms=5, pid=1), read(0, 3, partition=2)), NOW_MS)
    cluster.writer.apply(batch([], read(0, 0, partition=7)), NOW_MS)
    cluster.writer.apply(batch(transaction(0, name, start_ms=9, pid=2), read(0, 3, partition=3)), NOW_MS)
    assert row(cluster.engine, cluster.id, name)["partition"] == 3
    cluster.writer.apply(batch([], read(0, 0, partition=10)), NOW_MS)
    found = row(cluster.engine, cluster.id, name)
    assert (found["partition"], found["producer_id"], found["commits"]) == (2, 1, 2)


def _homes(name: bytes) -> tuple[int | None, ...]:
    return tuple(coordinator_partition(name, size) for size in SIZES)


def test_a_partition_that_does_not_answer_yet_counts_for_the_hash(cluster: Cluster) -> None:
    """`exp-c` is in partition 3 of 8, and the highest partition that was read is 6. If the store assumed 7 partitions,
    `exp-c` would hash to another partition."""
    assert coordinator_partition(b"exp-c", 7) != 3
    cluster.start({})
    span = read(0, 3, partition=3)._replace(topic_partitions=8)
    cluster.writer.apply(batch(transaction(0, b"exp-c", start_ms=9, pid=1000), span), NOW_MS)
    other = coordinator_partition(b"exp-c", 7) or 0
    old = read(0, 1, partition=other)._replace(topic_partitions=8)
    cluster.writer.apply(batch([entry(0, states.ONGOING, b"exp-c", pid=1, at_ms=NOW_MS)], old), NOW_MS)
    cluster.writer.apply(batch([], read(0, 0, partition=6)._replace(topic_partitions=8)), NOW_MS)
    assert row(cluster.engine, cluster.id, b"exp-c")["partition"] == 3
    with cluster.engine.connect() as connection:
        assert partition_count_of(connection, cluster.id) == 8


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


def test_ids_of_removed_partitions_expire_and_their_positions_go(cluster: Cluster) -> None:
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
    assert found[b"ended"]["commits"] == 1, "the counts of an id continue after it expired and came back"
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
    cluster.writer.apply(after, NOW_MS + 1)
    assert everything(cluster.engine, cluster.id) == before


def test_the_sums_of_records_and_bytes_never_fall(cluster: Cluster) -> None:
    """If the sum fell, Prometheus would take the lower value for a counter that was reset to 0."""
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
    cluster.writer.apply(LogBatch((gone(2, 4),), (), ()), NOW_MS)
    assert everything(cluster.engine, cluster.id)["log_partitions"] == before["log_partitions"]
    assert (row(cluster.engine, cluster.id, b"open")["state"], cluster.positions()[2].next_offset) == (
        states.COMPLETE_COMMIT,
        3,
    )


def test_a_partition_ends_once_even_if_the_batch_is_split(cluster: Cluster) -> None:
    """The batch has more ids below `counted_from` than one transaction of the database takes."""
    cluster.start({0: 9, 2: 0})
    cluster.writer.apply(batch([entry(0, states.ONGOING, b"open")], read(0, 1, partition=2)), NOW_MS)
    history = [e for n in range(3) for e in transaction(3 * n, b"id-%d" % n, start_ms=1)]
    more = [entry(8, states.ONGOING, b"id-%d" % n) for n in range(3, 6)]
    cluster.writer.apply(batch([*history, *more], read(0, 9), LogBatch((gone(2, 1),), (), ())), NOW_MS)
    assert list(cluster.positions()) == [0]
    assert row(cluster.engine, cluster.id, b"open")["state"] == states.EXPIRED
    assert len(rows(cluster.engine, schema.data_gaps, cluster.id)) == 1
    assert cluster.positions()[0].records == 10

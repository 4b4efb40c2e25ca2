"""Records in partitions of the transaction log where no coordinator looks: which record of an id counts does not depend
on the order in which the log is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.domain.transaction_log import states
from service.domain.transaction_log.coordinator_partition import coordinator_partition
from service.store import schema
from service.store.queries.owners import partition_count_of
from tests.service.store.conftest import Cluster, only_on
from tests.service.store.logs import NOW_MS, Entry, as_lone, batch, entry, read, row, rows, transaction

IDS = (b"exp-a", b"exp-b", b"exp-c", b"pay-1", b"bytes \xff")
SIZES = (5, 8, 11)
"""Numbers of partitions that the log had, one after another. Of 11, some ids return to the partition of 5."""

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
"""By partition, its records."""

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
    """Logs in which each id may have lived under each number of partitions, with a producer id for each."""
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
    """Ranges (partition, lo, hi) of the logs, those of each partition in order, the partitions in any order."""
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
    """Reads the ranges after a start at which the cluster had no log yet: partitions are added as they are read."""
    cluster.start({})
    for partition, lo, hi in ranges:
        cluster.writer.apply(batch(found[partition][lo:hi], read(lo, hi, partition=partition)), NOW_MS)


def read_first(cluster: Cluster, found: Logs, partitions: Sequence[int]) -> None:
    """Reads logs that were there at the first start, whole partitions in this order, as columns where that is possible:
    one run for each id."""
    cluster.start({partition: len(log) for partition, log in found.items()})
    for partition in partitions:
        log = found[partition]
        reported = batch(log, read(0, len(log), partition=partition, counts=False))
        ids = [run.transactional_id for run in reported.runs]
        is_lone = ids and len(set(ids)) == len(ids) and not reported.steps
        cluster.writer.apply(as_lone(reported) if is_lone else reported, NOW_MS)


def stored(cluster: Cluster, *leave_out: str) -> list[list[dict[str, Any]]]:
    tables = [rows(cluster.engine, table, cluster.id, *leave_out) for table in TABLES]
    tables[-1] = [one for one in tables[-1] if one["ids"]]
    return tables


@only_on("sqlite")  # the order is the writer's business, not the database's
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_order_of_reading_gives_the_same_rows(new_cluster: Callable[[], Cluster], data: st.DataObject) -> None:
    found = data.draw(logs())
    first, second, third, fourth = (new_cluster() for _ in range(4))
    follow(first, found, data.draw(cuts(found)))
    follow(second, found, data.draw(cuts(found)))
    assert stored(first, *OF_ABORTS) == stored(second, *OF_ABORTS)
    read_first(third, found, data.draw(st.permutations(sorted(found))))
    read_first(fourth, found, sorted(found))
    assert stored(third) == stored(fourth)
    assert stored(first, *COUNTED, *OF_ABORTS, "last_outcome") == stored(third, *COUNTED, *OF_ABORTS, "last_outcome")


def test_of_two_live_records_the_one_counts_where_a_coordinator_looks(cluster: Cluster) -> None:
    """`exp-c` was in partition 2 of 5 and was started again in partition 3 of 8; the old record is read last."""
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


def test_a_record_counts_again_where_more_partitions_return_its_id(cluster: Cluster) -> None:
    """Of 5 partitions the id is in 2, of 8 in 3, of 11 in 2 again."""
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


def test_a_partition_that_does_not_answer_yet_is_counted(cluster: Cluster) -> None:
    """`exp-c` is in 3 of 8. Were 7 partitions taken for all, it would be in another one."""
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

"""Tests of the owners of a producer id: the current one, former ones, and ids that expired or were deleted."""

from __future__ import annotations

from service.domain.partitions.open_entries import Owner
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import LogRecord, Participants
from service.store import schema
from service.store.queries import clusters
from service.store.queries.owners import owners
from service.store.retention import Retention
from tests.service.store.conftest import Cluster
from tests.service.store.histories import committed
from tests.service.store.logs import NOW_MS, Entry, batch, entry, read, rows, transaction, value_of

DAY_MS = 86_400_000


def found(cluster: Cluster, *producer_ids: int) -> dict[int, list[Owner]]:
    with cluster.engine.connect() as connection:
        return owners(connection, cluster.id, producer_ids)


def log(cluster: Cluster, entries: list[Entry], lo: int = 0, partition: int = 0) -> None:
    cluster.writer.apply(batch(entries, read(lo, lo + len(entries), partition=partition)), NOW_MS)


def test_an_owner_has_every_field(cluster: Cluster) -> None:
    topics = (Participants("orders", (0, 3)), Participants("audit", (1,)))
    ended = transaction(0, start_ms=1_000)
    log(cluster, [*ended, entry(3, states.ONGOING, start_ms=2_000, epoch=1, version=2, topics=topics)])
    partitions = (("audit", 1), ("orders", 0), ("orders", 3))
    newest = LogRecord(3, 10_003, 0, states.ONGOING, 7, 1, 60_000, 10_003, 2_000, 2, -1, 3)
    had = (10_000, 10_003, 0, 1, 1, states.PREPARE_COMMIT, value_of(ended[1]))
    assert found(cluster, 7, 8) == {7: [Owner(b"pay", 0, 0, newest, partitions, *had)]}


def test_an_id_that_changed_its_producer_id_is_returned_for_both(cluster: Cluster) -> None:
    log(cluster, [*transaction(0, start_ms=1_000, pid=7), entry(3, states.ONGOING, pid=8)])
    (before,), (now,) = found(cluster, 7, 8).values()
    assert (before.producer_id, before.state, before.first_seen_ms) == (8, states.ONGOING, 10_000)
    assert (before.last_seen_ms, before.ended_state) == (10_002, states.PREPARE_COMMIT)
    assert (now.producer_id, now.ended_offset, now.ended_value) == (8, None, None)
    assert before.partitions == now.partitions == (("orders", 0), ("orders", 3))


def test_the_present_owner_comes_first_then_the_latest_former_one(cluster: Cluster) -> None:
    """Several ids have the same producer id only after an error of a person or of Kafka. All these ids are returned."""
    log(cluster, [entry(0, states.EMPTY, b"a"), entry(1, states.EMPTY, b"b"), entry(2, states.EMPTY, b"c")])
    log(cluster, [entry(3, states.EMPTY, b"b", pid=8), entry(4, states.EMPTY, b"c", pid=9)], lo=3)
    assert [owner.transactional_id for owner in found(cluster, 7)[7]] == [b"a", b"c", b"b"]


def test_an_id_that_expired_is_still_named(cluster: Cluster) -> None:
    cluster.start({0: 0})
    long_ago_ms = NOW_MS - 20 * DAY_MS
    log(cluster, [*committed(0, long_ago_ms), entry(3, states.EXPIRED, at_ms=long_ago_ms)])
    (expired,) = found(cluster, 7)[7]
    assert (expired.transactional_id, expired.state, expired.record.offset) == (b"pay", states.EXPIRED, 3)
    assert (expired.producer_id, expired.record.timeout_ms) == (7, 60_000)
    Retention(cluster.engine, cluster.lease).delete_old(NOW_MS - 10 * DAY_MS)
    assert rows(cluster.engine, schema.transactional_ids, cluster.id) == []
    (forgotten,) = found(cluster, 7)[7]
    assert (forgotten.transactional_id, forgotten.state) == (b"pay", states.EXPIRED)
    assert (forgotten.log_partition, forgotten.record.offset, forgotten.producer_id, forgotten.partitions) == (
        -1,
        -1,
        -1,
        (),
    )
    assert forgotten[-7:] == expired[-7:]


def test_owners_of_a_thousand_producer_ids_are_found_at_once(cluster: Cluster) -> None:
    log(cluster, [entry(n, states.ONGOING, b"id-%04d" % n, pid=n) for n in range(1_200)])
    all_of_them = found(cluster, *range(1_300))
    assert {pid: owner.transactional_id for pid, (owner,) in all_of_them.items()} == {
        n: b"id-%04d" % n for n in range(1_200)
    }
    assert all(owner.partitions == (("orders", 0), ("orders", 3)) for (owner,) in all_of_them.values())


def test_a_record_that_was_left_behind_has_its_own_partitions(cluster: Cluster) -> None:
    """`exp-c` was in partition 2 while the log had 5 partitions, and started again in partition 3 of 8."""
    cluster.start(dict.fromkeys(range(8), 0))
    log(cluster, [entry(0, states.ONGOING, b"exp-c", pid=3)], partition=2)
    assert found(cluster, 3)[3][0].is_left_behind
    log(cluster, transaction(0, b"exp-c", start_ms=2_000, pid=1000), partition=3)
    (before,), (now,) = found(cluster, 3, 1000).values()
    assert (before.log_partition, before.state, before.producer_id) == (2, states.ONGOING, 3)
    assert (before.partitions, before.is_left_behind) == ((("orders", 0), ("orders", 3)), True)
    assert (now.log_partition, now.state, now.producer_id) == (3, states.COMPLETE_COMMIT, 1000)
    assert (now.partitions, now.is_left_behind) == ((), False)


def test_an_undecodable_record_may_be_of_any_producer_even_if_left_behind(cluster: Cluster) -> None:
    cluster.start(dict.fromkeys(range(8), 0))
    log(cluster, [entry(0, states.UNKNOWN, b"exp-c")], partition=2)
    log(cluster, transaction(0, b"exp-c", start_ms=2_000, pid=1000), partition=3)
    with cluster.engine.connect() as connection:
        assert clusters.has_undecodable(connection, cluster.id)

"""Tests of an id's row in the store after records of the id were applied."""

from __future__ import annotations

from collections.abc import Callable

from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Participants
from service.store import schema
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, Entry, batch, counters, entry, everything, read, row, rows, transaction


def apply(cluster: Cluster, *entries: Entry) -> None:
    """Applies one batch to partition 0. The range of the batch begins at the position in the store."""
    lo = cluster.positions()[0].next_offset if cluster.positions() else 0
    cluster.writer.apply(batch(entries, read(lo, entries[-1].record.offset + 1)), NOW_MS)


def participants(cluster: Cluster) -> list[tuple[bytes, str, int]]:
    found = rows(cluster.engine, schema.open_participants, cluster.id)
    return [(r["transactional_id"], r["topic"], r["partition"]) for r in found]


def test_an_end_split_over_two_batches_counts_once(cluster: Cluster) -> None:
    ongoing, prepare, complete = transaction(0, start_ms=5)
    apply(cluster, ongoing, prepare)
    assert counters(cluster.engine, cluster.id) == {"producer_ids_assigned": 1}
    apply(cluster, complete)
    apply(cluster, entry(3, states.COMPLETE_COMMIT, start_ms=5))  # the coordinator missed an acknowledgement
    apply(cluster, entry(4, states.COMPLETE_COMMIT, start_ms=5), entry(5, states.COMPLETE_COMMIT, start_ms=5))
    apply(cluster, *transaction(6, start_ms=6))
    assert row(cluster.engine, cluster.id)["commits"] == 2
    assert counters(cluster.engine, cluster.id) == {"commits": 2, "producer_ids_assigned": 1}
    minutes = rows(cluster.engine, schema.cluster_minutes, cluster.id)
    assert minutes == [{"minute_ms": NOW_MS - NOW_MS % 60_000, "commits": 2, "aborts": 0}]


def test_an_abort_counts_unless_its_transaction_is_empty(cluster: Cluster) -> None:
    apply(cluster, *transaction(0, start_ms=5))
    apply(cluster, entry(3, states.PREPARE_ABORT, start_ms=6, topics=()))
    apply(cluster, entry(4, states.COMPLETE_ABORT, start_ms=6))
    assert row(cluster.engine, cluster.id)["aborts_unattributed"] == 0
    assert row(cluster.engine, cluster.id)["last_outcome"] == states.PREPARE_COMMIT
    apply(cluster, entry(5, states.ONGOING, start_ms=7), entry(6, states.PREPARE_ABORT, start_ms=7))
    assert row(cluster.engine, cluster.id)["last_outcome"] == states.PREPARE_ABORT
    apply(cluster, entry(7, states.COMPLETE_ABORT, start_ms=7))
    assert row(cluster.engine, cluster.id)["last_outcome"] == states.PREPARE_ABORT
    assert row(cluster.engine, cluster.id)["aborts_client"] == 1
    assert counters(cluster.engine, cluster.id)["aborts_client"] == 1


def test_the_outcome_stays_while_the_next_transaction_is_open(cluster: Cluster) -> None:
    apply(cluster, *transaction(0, start_ms=5), entry(3, states.ONGOING, start_ms=6))
    assert row(cluster.engine, cluster.id)["last_outcome"] == states.PREPARE_COMMIT
    apply(cluster, entry(4, states.ONGOING, start_ms=6))
    assert row(cluster.engine, cluster.id)["last_outcome"] == states.PREPARE_COMMIT


def test_the_end_of_a_transaction_shows_the_outcome_if_its_decision_was_not_read(cluster: Cluster) -> None:
    """PrepareAbort may be a record that cannot be decoded."""
    apply(cluster, *transaction(0, start_ms=5), entry(3, states.ONGOING, start_ms=6))
    apply(cluster, entry(5, states.COMPLETE_ABORT, start_ms=6))
    assert row(cluster.engine, cluster.id)["last_outcome"] == states.COMPLETE_ABORT


def test_an_open_transaction_has_a_start_time_and_an_ended_one_has_none(cluster: Cluster) -> None:
    ongoing, prepare, complete = transaction(0, start_ms=5)
    seen = []
    for one in (ongoing, prepare, complete):
        apply(cluster, one)
        found = row(cluster.engine, cluster.id)
        seen.append((found["started_at_ms"], found["state_since_ms"]))
    assert seen == [(5, 5), (5, 10_001), (None, 10_002)]


def test_open_partitions_are_those_of_the_newest_record(cluster: Cluster) -> None:
    more = (Participants("orders", (0, 3, 4)), Participants("audit", (1,)))
    apply(cluster, entry(0, states.ONGOING), entry(1, states.ONGOING, b"other"))
    assert participants(cluster) == [
        (b"other", "orders", 0),
        (b"pay", "orders", 0),
        (b"other", "orders", 3),
        (b"pay", "orders", 3),
    ]
    apply(cluster, entry(2, states.ONGOING, topics=more))
    mine = [(topic, partition) for key, topic, partition in participants(cluster) if key == b"pay"]
    assert mine == [("audit", 1), ("orders", 0), ("orders", 3), ("orders", 4)]
    apply(cluster, entry(3, states.PREPARE_COMMIT, topics=more), entry(4, states.COMPLETE_COMMIT))
    assert [key for key, _, _ in participants(cluster)] == [b"other", b"other"]


def test_a_tombstone_expires_the_id_and_a_later_return_keeps_its_counts(cluster: Cluster) -> None:
    apply(cluster, *transaction(0, start_ms=5))
    apply(cluster, entry(3, states.EXPIRED))
    expired = row(cluster.engine, cluster.id)
    assert (expired["state"], expired["offset"], expired["state_since_ms"]) == (states.EXPIRED, 3, 10_003)
    assert (expired["producer_id"], expired["timeout_ms"], expired["start_ms"]) == (7, 60_000, 5)
    apply(cluster, entry(4, states.EXPIRED))  # a repeated tombstone does not count again
    apply(cluster, entry(5, states.EMPTY, pid=8), *transaction(6, start_ms=9, pid=8))
    reborn = row(cluster.engine, cluster.id)
    assert (reborn["state"], reborn["producer_id"], reborn["commits"]) == (states.COMPLETE_COMMIT, 8, 2)
    assert counters(cluster.engine, cluster.id) == {"commits": 2, "expired": 1, "producer_ids_assigned": 2}


def test_an_undecodable_record_taints_its_id_until_the_next(cluster: Cluster) -> None:
    apply(cluster, entry(0, states.ONGOING, start_ms=5))
    apply(cluster, entry(1, states.UNKNOWN))
    unknown = row(cluster.engine, cluster.id)
    assert (unknown["state"], unknown["producer_id"], unknown["started_at_ms"]) == (states.UNKNOWN, 7, None)
    assert participants(cluster) == []
    apply(cluster, entry(2, states.COMPLETE_COMMIT, start_ms=5))
    known = row(cluster.engine, cluster.id)
    assert (known["state"], known["commits"]) == (states.COMPLETE_COMMIT, 1)


def test_an_id_known_only_by_its_tombstone_is_stored(cluster: Cluster) -> None:
    apply(cluster, entry(0, states.EXPIRED, b"old"))
    found = row(cluster.engine, cluster.id, b"old")
    assert (found["state"], found["producer_id"]) == (states.EXPIRED, -1)
    assert rows(cluster.engine, schema.producer_ids, cluster.id) == []


def test_producer_ids_have_the_times_and_epochs_of_their_use(cluster: Cluster) -> None:
    apply(
        cluster, entry(0, states.EMPTY, pid=7, epoch=3, at_ms=100), entry(1, states.ONGOING, pid=7, epoch=3, at_ms=110)
    )
    apply(cluster, entry(2, states.EMPTY, pid=7, epoch=5, at_ms=120), entry(3, states.EMPTY, pid=9, at_ms=130))
    apply(cluster, entry(4, states.ONGOING, pid=9, epoch=1, at_ms=140), entry(5, states.EMPTY, b"b", pid=7, at_ms=150))
    assert [tuple(r.values())[:6] for r in rows(cluster.engine, schema.producer_ids, cluster.id)] == [
        (7, b"b", 150, 150, 0, 0),
        (7, b"pay", 100, 120, 3, 5),
        (9, b"pay", 130, 140, 0, 1),
    ]
    assert counters(cluster.engine, cluster.id) == {"producer_ids_assigned": 3}


def test_a_producer_id_that_comes_back_is_not_assigned_again(cluster: Cluster) -> None:
    for offset, pid in enumerate((7, 9, 7, 9)):
        apply(cluster, entry(offset, states.EMPTY, pid=pid))
    assert counters(cluster.engine, cluster.id) == {"producer_ids_assigned": 2}


def test_an_id_may_come_back_in_another_partition(cluster: Cluster) -> None:
    """The topic was recreated with two partitions, and the id hashes to the second one."""
    apply(cluster, *transaction(0, b"job-1", start_ms=5), entry(3, states.ONGOING, b"job-1", start_ms=6))
    moved = batch([entry(0, states.COMPLETE_COMMIT, b"job-1", start_ms=6)], read(0, 1, partition=1, topic_id="U"))
    cluster.writer.apply(moved, NOW_MS)
    found = row(cluster.engine, cluster.id, b"job-1")
    assert (found["partition"], found["offset"], found["commits"]) == (1, 0, 2)
    assert participants(cluster) == []
    ids = {(r["partition"], r["state"]): r["ids"] for r in rows(cluster.engine, schema.coordinator_states, cluster.id)}
    assert ids[1, states.COMPLETE_COMMIT] == 1
    assert sum(ids.values()) == 1


def test_clusters_of_one_store_do_not_mix(new_cluster: Callable[[], Cluster]) -> None:
    cluster, other = new_cluster(), new_cluster()
    apply(cluster, *transaction(0, start_ms=5))
    before = everything(cluster.engine, cluster.id)
    apply(other, entry(0, states.ONGOING), entry(1, states.EXPIRED))
    assert everything(cluster.engine, cluster.id) == before


def test_transitions_per_second_are_those_of_the_last_ten_seconds(cluster: Cluster) -> None:
    for second in range(21):
        lo = second * 30
        cluster.writer.apply(batch([], read(lo, lo + 30)), NOW_MS + second * 1000)
    assert cluster.positions()[0].transitions_per_s == 30.0
    for second in range(21, 45):
        cluster.writer.apply(batch([], read(630, 630)), NOW_MS + second * 1000)
    assert cluster.positions()[0].transitions_per_s == 0.0


def test_a_tombstone_in_an_old_partition_does_not_expire_an_id_that_moved(cluster: Cluster) -> None:
    """Partitions were added to the transaction log, and the id moved to a new partition. The coordinator of the old
    partition expires the id a week later."""
    cluster.writer.apply(batch(transaction(0, b"job-1", start_ms=5, pid=7), read(0, 3)), NOW_MS)
    cluster.writer.apply(batch(transaction(0, b"job-1", start_ms=9, pid=8), read(0, 3, partition=1)), NOW_MS)
    cluster.writer.apply(batch([entry(3, states.EXPIRED, b"job-1")], read(3, 4)), NOW_MS)
    found = row(cluster.engine, cluster.id, b"job-1")
    assert (found["partition"], found["state"], found["producer_id"]) == (1, states.COMPLETE_COMMIT, 8)
    assert found["commits"] == 2
    assert "expired" not in counters(cluster.engine, cluster.id)

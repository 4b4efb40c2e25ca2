"""The first read of a long log goes in short transactions; a kill between any two of them changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from sqlalchemy import event

from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Gap, LogBatch, Reject
from service.store import schema
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, batch, counters, entry, everything, read, rows, transaction


class Killed(Exception):
    pass


def long_log() -> LogBatch:
    """Ten ids below the border of partition 0 (four transactions), one above the border of partition 1."""
    old = [e for i in range(9) for e in transaction(3 * i, b"id-%d" % i, start_ms=i, pid=i)]
    old += [
        entry(27, states.ONGOING, b"id-3", pid=3),
        entry(28, states.EXPIRED, b"id-4"),
        entry(29, 0, b"id-9", pid=50),
    ]
    garbage = Reject(0, 0, 5, "unknown value version", b"id-1", b"k", b"v")
    live = batch(transaction(0, b"live", start_ms=1), read(0, 3, partition=1))
    return batch(old, read(0, 30), live, rejects=[garbage])


def die_at_commit(cluster: Cluster, number: int) -> Callable[[], None]:
    """Raise instead of the commit of this number; how to stop that."""
    seen = 0

    def on_commit(_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            raise Killed

    event.listen(cluster.engine, "commit", on_commit)
    return lambda: event.remove(cluster.engine, "commit", on_commit)


@pytest.fixture
def expected(new_cluster: Callable[[], Cluster]) -> dict[str, list[dict[str, object]]]:
    calm = new_cluster()
    calm.start({0: 30, 1: 0})
    calm.writer.apply(long_log(), NOW_MS)
    return everything(calm.engine, calm.id)


def test_it_takes_several_transactions_and_none_counts(cluster: Cluster) -> None:
    cluster.start({0: 30, 1: 0})
    die_at_commit(cluster, 1 + 4 + 1)  # the plan, four times three runs, the progress
    with pytest.raises(Killed):
        cluster.writer.apply(long_log(), NOW_MS)
    assert len(rows(cluster.engine, schema.transactional_ids, cluster.id)) == 10
    cluster.writer.apply(long_log(), NOW_MS)
    assert counters(cluster.engine, cluster.id) == {
        "commits": 1,
        "producer_ids_assigned": 1,
        "decode_errors/unknown value version": 1,
    }
    assert {r["commits"] for r in rows(cluster.engine, schema.transactional_ids, cluster.id)} == {0, 1}


@pytest.mark.parametrize("commit", range(1, 7))
def test_a_kill_before_any_commit_is_made_good_by_the_same_batch(
    cluster: Cluster, expected: dict[str, list[dict[str, object]]], commit: int
) -> None:
    cluster.start({0: 30, 1: 0})
    live_again = die_at_commit(cluster, commit)
    with suppress(Killed):
        cluster.writer.apply(long_log(), NOW_MS)
    live_again()
    assert [p.next_offset for p in cluster.positions().values()] == [0, 0]
    assert counters(cluster.engine, cluster.id) == {}
    cluster.writer.apply(long_log(), NOW_MS)
    assert everything(cluster.engine, cluster.id) == expected
    cluster.writer.apply(long_log(), NOW_MS)
    assert everything(cluster.engine, cluster.id) == expected


@pytest.mark.parametrize("commit", range(1, 6))
def test_a_kill_while_another_generation_is_read_leaves_nothing_stale(cluster: Cluster, commit: int) -> None:
    cluster.writer.apply(batch([entry(i, states.ONGOING, b"stale-%d" % i) for i in range(40)], read(0, 40)), NOW_MS)
    again = [entry(i, states.ONGOING, b"kept-%d" % i) for i in range(9)]
    parted = batch(again, read(0, 30, generation=1, gap=Gap(30, 40, "diverged")))
    live_again = die_at_commit(cluster, commit)
    with suppress(Killed):
        cluster.writer.apply(parted, NOW_MS)
    live_again()
    cluster.writer.apply(parted, NOW_MS)
    listed = [r for r in rows(cluster.engine, schema.transactional_ids, cluster.id) if r["state"] != states.EXPIRED]
    assert [r["transactional_id"] for r in listed] == [e.transactional_id for e in again]
    assert len(rows(cluster.engine, schema.open_participants, cluster.id)) == 18
    assert len(rows(cluster.engine, schema.data_gaps, cluster.id)) == 1
    assert cluster.positions()[0].next_offset == 30
    states_kept = [tuple(r.values()) for r in rows(cluster.engine, schema.coordinator_states, cluster.id)]
    assert states_kept == [(0, states.ONGOING, 9), (0, states.EXPIRED, 40)]

"""Tests that the content of the store depends neither on how a log is split into batches, nor on when the process is
killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, event, insert

from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Gap, LogBatch, Participants, Reject
from service.store import schema
from service.store.errors import StoreUnavailable
from service.store.schema import coordinator_states, open_participants, producer_ids, transactional_ids, transitions
from service.store.writers.ids import IdWriter
from service.store.writers.transaction_log import TransactionLogWriter
from tests.service.store.conftest import Cluster
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

IDS = (b"a", b"b", b"c\x00")
NOTHING: tuple[Participants, ...] = ()

# the records that a coordinator appends for each action: the state, and the partitions if they are not the usual ones
DEEDS: dict[str, tuple[tuple[int, tuple[Participants, ...] | None], ...]] = {
    "init": ((states.EMPTY, None),),
    "rotate": ((states.EMPTY, None),),
    "open": ((states.ONGOING, (Participants("t", (0, 1)), Participants("u", (5,)))),),
    "commit": ((states.ONGOING, None), (states.PREPARE_COMMIT, None), (states.COMPLETE_COMMIT, None)),
    "abort": ((states.ONGOING, None), (states.PREPARE_ABORT, None), (states.COMPLETE_ABORT, None)),
    "empty abort": ((states.PREPARE_ABORT, NOTHING), (states.COMPLETE_ABORT, NOTHING)),
    "repeat": (),
    "expire": ((states.EXPIRED, None),),
    "undecodable": ((states.UNKNOWN, None),),
}


class Coordinator:
    """A coordinator that writes a log. It notes the offsets at which transactions ended and ids were removed."""

    def __init__(self) -> None:
        self.log: list[Entry] = []
        self.ends: dict[str, list[tuple[int, bytes]]] = {"commit": [], "abort": [], "expire": []}
        self._newest: dict[bytes, Entry] = {}
        self._pids: dict[bytes, int] = {}

    def do(self, key: bytes, deed: str) -> None:
        before = self._newest.get(key)
        if before is not None and before.record.state == states.EXPIRED and deed in ("expire", "undecodable"):
            return  # the id is removed already
        if deed == "rotate" or key not in self._pids:
            self._pids[key] = 100 + len(self.log)
        if deed == "repeat" and before is not None:
            again = before.record._replace(offset=len(self.log), timestamp_ms=self._now_ms())
            self._append(before._replace(record=again))
        started_ms = 5_000 + len(self.log)
        for state, topics in DEEDS[deed]:
            number, pid, at_ms = len(self.log), self._pids[key], self._now_ms()
            self._append(entry(number, state, key, pid=pid, start_ms=started_ms, at_ms=at_ms, topics=topics))
        if deed in self.ends:
            self.ends[deed].append((len(self.log) - 1, key))

    def _now_ms(self) -> int:
        """Returns the time of the next record, 400 ms after the previous record. With this distance, some decisions are
        repeated within the time that markers usually take, and others after it."""
        return 10_000 + 400 * len(self.log)

    def _append(self, one: Entry) -> None:
        self.log.append(one)
        self._newest[one.transactional_id] = one

    def ended(self, deed: str, counted_from: int) -> Counter[bytes]:
        """Returns a mapping from id to its number of commits, aborts or expirations (`deed`) at or above the offset
        `counted_from`."""
        return Counter(key for offset, key in self.ends[deed] if offset >= counted_from)


def feed(cluster: Cluster, log: list[Entry], cuts: Iterable[int], counted_from: int) -> dict[str, list[dict[str, Any]]]:
    """Applies the log in pieces that end at `counted_from` and at `cuts` (modulo the length of the log + 1). Returns
    the rows of the cluster, without coordinator states that no id has."""
    cluster.start({0: counted_from})
    edges = sorted({cut % (len(log) + 1) for cut in cuts} | {0, counted_from, len(log)})
    for lo, hi in pairwise(edges):
        span = read(lo, hi, end=len(log), counts=lo >= counted_from)
        cluster.writer.apply(batch(log[lo:hi], span), NOW_MS)
    found = everything(cluster.engine, cluster.id)
    found["coordinator_states"] = [r for r in found["coordinator_states"] if r["ids"]]
    return found


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    deeds=st.lists(st.tuples(st.sampled_from(IDS), st.sampled_from(sorted(DEEDS))), max_size=40),
    cuts=st.lists(st.integers(0, 200), max_size=12),
    border=st.integers(0, 200),
)
def test_the_rows_do_not_depend_on_where_a_log_is_cut(
    new_cluster: Callable[[], Cluster], deeds: list[tuple[bytes, str]], cuts: list[int], border: int
) -> None:
    coordinator = Coordinator()
    for key, deed in deeds:
        coordinator.do(key, deed)
    log = coordinator.log
    counted_from = border % (len(log) + 1)
    whole, pieces, single = new_cluster(), new_cluster(), new_cluster()

    at_once = feed(whole, log, [], counted_from)
    assert feed(pieces, log, cuts, counted_from) == at_once
    assert feed(single, log, range(len(log)), counted_from) == at_once

    commits, aborts, expiries = (coordinator.ended(deed, counted_from) for deed in ("commit", "abort", "expire"))
    for found in rows(whole.engine, schema.transactional_ids, whole.id):
        key = found["transactional_id"]
        counted_aborts = sum(found[name] for name in found if name.startswith("aborts_"))
        waiting = found["settles_at_ms"] is not None and found["abort_counts"]
        assert (found["commits"], counted_aborts + waiting) == (commits[key], aborts[key])
    counted = Counter(counters(whole.engine, whole.id))
    assert (counted["commits"], counted["aborts"]) == (commits.total(), aborts.total())
    assert counted["expired"] == expiries.total()

    by_state = Counter((r["partition"], r["state"]) for r in rows(single.engine, schema.transactional_ids, single.id))
    assert {(r["partition"], r["state"]): r["ids"] for r in at_once["coordinator_states"]} == by_state


class Killed(Exception):
    pass


def long_log() -> LogBatch:
    """Returns the records of ten ids in partition 0, and of one id in partition 1.

    In the tests, counting begins behind the records of partition 0 (at offset 30), and at the first record of partition
    1. Storing the ten ids takes four database transactions.
    """
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
    """Makes the commit with this number raise Killed. Returns a function that removes the fault."""
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


def test_a_large_batch_in_several_database_transactions_counts_once(cluster: Cluster) -> None:
    cluster.start({0: 30, 1: 0})
    die_at_commit(cluster, 1 + 4 + 1)  # the plan, four transactions of up to three runs, the progress
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
def test_the_same_batch_repairs_a_kill_before_any_commit(
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
def test_a_kill_during_a_new_generation_leaves_no_stale_rows(cluster: Cluster, commit: int) -> None:
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


ID_TABLES = (transactional_ids, open_participants, producer_ids, coordinator_states)
LONE_IDS = [
    entry(0, states.ONGOING, b"open", pid=1),
    entry(1, states.COMPLETE_COMMIT, b"committed", pid=2),
    entry(2, states.PREPARE_ABORT, b"prepared", pid=3),
    entry(3, states.EXPIRED, b"expired"),
    entry(4, states.EMPTY, b"empty", pid=4),
    entry(5, states.UNKNOWN, b"broken"),
    entry(6, states.COMPLETE_ABORT, b"bytes \xff\n", pid=5),
]
HISTORY = batch(LONE_IDS, read(0, 7, counts=False))


def of_ids(engine: Engine, cluster: Cluster) -> list[list[dict[str, Any]]]:
    """Returns the rows of ids, without `is_examined`. In that column, ids stored as columns differ on purpose: their
    applications are found by a later walk over all ids."""
    found = [rows(engine, table, cluster.id) for table in ID_TABLES]
    return [[{key: value for key, value in row.items() if key != "is_examined"} for row in some] for some in found]


@pytest.fixture
def by_runs(engine: Engine, new_cluster: Callable[[], Cluster]) -> list[list[dict[str, Any]]]:
    """Applies HISTORY run by run, and returns the rows. Tests compare them with the rows after HISTORY was applied as
    columns."""
    cluster = new_cluster()
    cluster.start({0: 7, 1: 1})
    cluster.writer.apply(HISTORY, NOW_MS)
    return of_ids(engine, cluster)


def test_columns_are_stored_in_the_same_way_as_runs(
    engine: Engine, cluster: Cluster, by_runs: list[list[dict[str, Any]]]
) -> None:
    cluster.start({0: 7, 1: 1})
    for _ in range(2):
        cluster.writer.apply(as_lone(HISTORY), NOW_MS)
        assert of_ids(engine, cluster) == by_runs


def test_rows_written_before_a_crash_are_written_once(
    engine: Engine, cluster: Cluster, by_runs: list[list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.start({0: 7, 1: 1})
    write, calls = IdWriter.write_new, []

    def fail_at_the_second(self: IdWriter, *args: Any) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise StoreUnavailable("gone")
        write(self, *args)

    monkeypatch.setattr(IdWriter, "write_new", fail_at_the_second)
    with pytest.raises(StoreUnavailable):
        cluster.writer.apply(as_lone(HISTORY), NOW_MS)
    assert len(rows(engine, transactional_ids, cluster.id)) == 3
    cluster.writer.apply(as_lone(HISTORY), NOW_MS)
    assert of_ids(engine, cluster) == by_runs


def test_a_tombstone_in_the_old_partition_leaves_a_moved_id_alive(engine: Engine, cluster: Cluster) -> None:
    """After partitions were added to the transaction log, the id hashes to another partition. The old partition then
    gets a tombstone of the id."""
    cluster.start({0: 7, 1: 1})
    cluster.writer.apply(as_lone(HISTORY), NOW_MS)
    tombstone = batch([entry(0, states.EXPIRED, b"open")], read(0, 1, partition=1, counts=False))
    cluster.writer.apply(as_lone(tombstone), NOW_MS)
    assert row(engine, cluster.id, b"open")["partition"] == 0
    assert row(engine, cluster.id, b"open")["state"] == states.ONGOING
    assert {row["partition"] for row in rows(engine, coordinator_states, cluster.id)} == {0}


def test_a_producer_id_whose_id_was_deleted_keeps_its_history(engine: Engine, cluster: Cluster) -> None:
    """Expired ids are deleted before their producer ids."""
    cluster.start({0: 7, 1: 1})
    with engine.begin() as connection:
        seen = {"first_seen_ms": 5, "last_seen_ms": 6, "first_epoch": 0, "last_epoch": 0}
        known = {"cluster_id": cluster.id, "producer_id": 2, "transactional_id": b"committed", **seen}
        connection.execute(insert(producer_ids), known)
    cluster.writer.apply(as_lone(HISTORY), NOW_MS)
    assert len(rows(engine, transactional_ids, cluster.id)) == len(LONE_IDS)
    (again,) = (row for row in rows(engine, producer_ids, cluster.id) if row["producer_id"] == 2)
    assert (again["first_seen_ms"], again["last_seen_ms"]) == (5, LONE_IDS[1].record.timestamp_ms)


def test_the_first_record_of_a_chosen_id_is_no_transition(engine: Engine, new_cluster: Callable[[], Cluster]) -> None:
    reported = batch(
        [lone_id._replace(record=lone_id.record._replace(timestamp_ms=NOW_MS)) for lone_id in LONE_IDS],
        HISTORY.ranges[0],
    )
    for same in (reported, as_lone(reported)):
        cluster = new_cluster()
        cluster.start({0: 7, 1: 1})
        writer = TransactionLogWriter(engine, cluster.lease, full_history_prefixes=(b"",))
        writer.apply(same, NOW_MS)
        assert rows(engine, transitions, cluster.id) == []

"""Lone runs, which are written in columns, leave the same rows as runs that are judged one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, insert

from service.domain.transaction_log import states
from service.store.errors import StoreUnavailable
from service.store.schema import coordinator_states, open_participants, producer_ids, transactional_ids, transitions
from service.store.writers.ids import IdWriter
from service.store.writers.transaction_log import TransactionLogWriter
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, as_lone, batch, entry, read, row, rows

TABLES = (transactional_ids, open_participants, producer_ids, coordinator_states)
IDS = [
    entry(0, states.ONGOING, b"open", pid=1),
    entry(1, states.COMPLETE_COMMIT, b"committed", pid=2),
    entry(2, states.PREPARE_ABORT, b"prepared", pid=3),
    entry(3, states.EXPIRED, b"expired"),
    entry(4, states.EMPTY, b"empty", pid=4),
    entry(5, states.UNKNOWN, b"broken"),
    entry(6, states.COMPLETE_ABORT, b"bytes \xff\n", pid=5),
]
HISTORY = batch(IDS, read(0, 7, counts=False))


def everything(engine: Engine, cluster: Cluster) -> list[list[dict[str, Any]]]:
    return [rows(engine, table, cluster.id) for table in TABLES]


@pytest.fixture
def by_runs(engine: Engine, new_cluster: Callable[[], Cluster]) -> list[list[dict[str, Any]]]:
    """Returns the rows of HISTORY in a store that judged each run."""
    cluster = new_cluster()
    cluster.start({0: 7, 1: 1})
    cluster.writer.apply(HISTORY, NOW_MS)
    return everything(engine, cluster)


def test_columns_are_stored_as_runs_are(engine: Engine, cluster: Cluster, by_runs: list[list[dict[str, Any]]]) -> None:
    cluster.start({0: 7, 1: 1})
    assert cluster.writer.apply(as_lone(HISTORY), NOW_MS).ranges == 1
    assert everything(engine, cluster) == by_runs
    assert cluster.writer.apply(as_lone(HISTORY), NOW_MS).skipped == 1
    assert everything(engine, cluster) == by_runs


def test_what_was_written_before_a_crash_is_written_once(
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
    assert everything(engine, cluster) == by_runs


def test_an_id_that_moved_to_another_partition_stays_where_it_is_alive(engine: Engine, cluster: Cluster) -> None:
    """Partitions were added to the log once, and ids hashed again: the old one has the tombstone."""
    cluster.start({0: 7, 1: 1})
    cluster.writer.apply(as_lone(HISTORY), NOW_MS)
    tombstone = batch([entry(0, states.EXPIRED, b"open")], read(0, 1, partition=1, counts=False))
    cluster.writer.apply(as_lone(tombstone), NOW_MS)
    assert row(engine, cluster.id, b"open")["partition"] == 0
    assert row(engine, cluster.id, b"open")["state"] == states.ONGOING
    assert {one["partition"] for one in rows(engine, coordinator_states, cluster.id)} == {0}


def test_a_producer_id_that_outlived_its_id_keeps_its_history(engine: Engine, cluster: Cluster) -> None:
    """Ids that expired are forgotten before their producer ids."""
    cluster.start({0: 7, 1: 1})
    with engine.begin() as connection:
        seen = {"first_seen_ms": 5, "last_seen_ms": 6, "first_epoch": 0, "last_epoch": 0}
        known = {"cluster_id": cluster.id, "producer_id": 2, "transactional_id": b"committed", **seen}
        connection.execute(insert(producer_ids), known)
    cluster.writer.apply(as_lone(HISTORY), NOW_MS)
    assert len(rows(engine, transactional_ids, cluster.id)) == len(IDS)
    (again,) = (one for one in rows(engine, producer_ids, cluster.id) if one["producer_id"] == 2)
    assert (again["first_seen_ms"], again["last_seen_ms"]) == (5, IDS[1].record.timestamp_ms)


def test_the_first_record_of_a_chosen_id_is_no_transition(engine: Engine, new_cluster: Callable[[], Cluster]) -> None:
    reported = batch([one._replace(record=one.record._replace(timestamp_ms=NOW_MS)) for one in IDS], HISTORY.ranges[0])
    for same in (reported, as_lone(reported)):
        cluster = new_cluster()
        cluster.start({0: 7, 1: 1})
        writer = TransactionLogWriter(engine, cluster.lease, full_history_prefixes=(b"",))
        writer.apply(same, NOW_MS)
        assert rows(engine, transitions, cluster.id) == []

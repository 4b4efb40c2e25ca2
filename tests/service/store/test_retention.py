"""Tests that rows past their retention are deleted in small batches, and that other rows stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine, Table

from service.access.actions import Outcome
from service.domain.findings.finding import Observation, RoundResult, Subject
from service.domain.findings.kinds import Kind, Severity, Status
from service.domain.findings.lifecycle import reconcile
from service.domain.partitions.facts import MarkerType, PartitionsBatch
from service.domain.partitions.ledger import LedgerBatch, Marker, TopicRange, Volume
from service.domain.retention_policy import Keep
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Gap, Reject
from service.store import audit_events, schema
from service.store.audit_events import Attempt
from service.store.errors import LeaseLost
from service.store.queries import clusters
from service.store.retention import Retention
from service.store.writers.findings import FindingWriter
from service.store.writers.partitions import LedgerWriter, PartitionWriter
from tests.helpers.findings import finding_facts, observe
from tests.service.store.conftest import Cluster, only_on, take_over
from tests.service.store.histories import aborted, committed
from tests.service.store.logs import NOW_MS, Entry, batch, entry, everything, rows
from tests.service.store.logs import read as span
from tests.service.store.looks import described, look
from tests.service.store.looks import entry as open_entry
from tests.service.store.query_plans import statements, steps_of

DAY_MS = 86_400_000
HISTORY_MS = 7 * DAY_MS
"""The default retention of history."""

LATER_MS = NOW_MS + HISTORY_MS + DAY_MS
"""A time at which the history of NOW_MS is past its default retention."""


def deleted(retention: Retention, now_ms: int, cluster: Cluster, *tables: Table) -> tuple[int, ...]:
    return delete(retention, now_ms, cluster, *tables)[0]


def delete(retention: Retention, now_ms: int, cluster: Cluster, *tables: Table) -> tuple[tuple[int, ...], bool]:
    """Calls the deletion once. Returns the number of deleted rows of each table, and the result of `delete_old`:
    whether the next call should come soon."""
    before = [len(rows(cluster.engine, table, cluster.id)) for table in tables]
    has_more = retention.delete_old(now_ms)
    return tuple(n - len(rows(cluster.engine, t, cluster.id)) for n, t in zip(before, tables, strict=True)), has_more


def apply(cluster: Cluster, entries: Sequence[Entry], lo: int = 0, now_ms: int = NOW_MS, **more: Any) -> None:
    read_ = span(lo, lo + len(entries), **more)
    cluster.writer.apply(batch(entries, read_), now_ms)


def seed(cluster: Cluster) -> None:
    """Stores transactions that ended shortly before NOW_MS: a commit and an abort of `pay`, and a commit and an abort
    of `old`, which then expires. Stores a commit and an abort of `pay` shortly before LATER_MS, under another producer
    id."""
    cluster.start({0: 0})
    log = [*committed(0, NOW_MS - 60_000, pid=7), *aborted(3, NOW_MS - 30_000, pid=7)]
    log += [*committed(6, NOW_MS - 60_000, b"old", pid=8), *aborted(9, NOW_MS - 30_000, b"old", pid=8)]
    log.append(entry(12, states.EXPIRED, b"old", at_ms=NOW_MS - 20_000))
    apply(cluster, log)
    again = [entry(13, states.EMPTY, pid=9, at_ms=LATER_MS - 90_000)]
    again += [*committed(14, LATER_MS - 60_000, pid=9), *aborted(17, LATER_MS - 30_000, pid=9)]
    apply(cluster, again, 13, LATER_MS)


def state_counts(engine: Engine, cluster_id: int) -> dict[tuple[int, int], int]:
    with engine.connect() as connection:
        return {
            (state_count.partition, state_count.state): state_count.ids
            for state_count in clusters.state_counts(connection, cluster_id)
        }


def test_old_history_and_old_expired_ids_are_deleted(cluster: Cluster) -> None:
    seed(cluster)
    assert not Retention(cluster.engine, cluster.lease).delete_old(LATER_MS)
    assert {row["offset"] for row in rows(cluster.engine, schema.transitions, cluster.id)} == {13, 18, 19}
    (minute,) = rows(cluster.engine, schema.id_minutes, cluster.id)
    assert (minute["transactional_id"], minute["commits"], minute["aborts_client"]) == (b"pay", 1, 1)
    (left,) = rows(cluster.engine, schema.transactional_ids, cluster.id)
    assert left["transactional_id"] == b"pay"
    assert state_counts(cluster.engine, cluster.id) == {(0, states.COMPLETE_ABORT): 1}


def test_nothing_is_deleted_before_its_time(cluster: Cluster) -> None:
    seed(cluster)
    before = everything(cluster.engine, cluster.id)
    assert not Retention(cluster.engine, cluster.lease).delete_old(NOW_MS + HISTORY_MS - 120_000)
    assert everything(cluster.engine, cluster.id) == before


def test_an_expired_id_that_comes_back_later_begins_anew(cluster: Cluster) -> None:
    seed(cluster)
    Retention(cluster.engine, cluster.lease).delete_old(LATER_MS)
    apply(cluster, [entry(20, states.EMPTY, b"old", pid=10, at_ms=LATER_MS)], 20, LATER_MS)
    assert state_counts(cluster.engine, cluster.id) == {(0, states.COMPLETE_ABORT): 1, (0, states.EMPTY): 1}


def test_long_unseen_producer_ids_are_deleted_unless_an_id_has_them(cluster: Cluster) -> None:
    seed(cluster)
    keep = Keep(producer_ids=30 * DAY_MS)
    much_later_ms = LATER_MS + 31 * DAY_MS
    retention = Retention(cluster.engine, cluster.lease, keep=keep)
    assert [deleted(retention, at, cluster, schema.producer_ids) for at in (LATER_MS, much_later_ms)] == [(0,), (2,)]
    assert [row["producer_id"] for row in rows(cluster.engine, schema.producer_ids, cluster.id)] == [9]


def test_the_producer_id_of_a_hanging_transaction_is_kept(cluster: Cluster) -> None:
    seed(cluster)
    hangs = Observation(
        Kind.HANGING, Severity.CRITICAL, Subject("orders", 0, b"old", 8, 0, 100), finding_facts(Kind.HANGING), ()
    )
    changes = reconcile({}, RoundResult((hangs,), frozenset({Kind.HANGING})), NOW_MS, "cluster")
    FindingWriter(cluster.engine, cluster.lease).save(changes, NOW_MS)
    PartitionWriter(cluster.engine, cluster.lease).apply(
        PartitionsBatch(NOW_MS, (look(NOW_MS),), (described(NOW_MS, open_entry()),)), NOW_MS
    )
    retention = Retention(cluster.engine, cluster.lease, keep=Keep(producer_ids=30 * DAY_MS))
    retention.delete_old(LATER_MS + 31 * DAY_MS)
    left = rows(cluster.engine, schema.producer_ids, cluster.id)
    assert sorted(row["producer_id"] for row in left) == [7, 8, 9], (
        "producer id 7 has an open entry, and producer id 8 has a finding"
    )


def test_the_walk_over_producer_ids_continues_and_starts_over(cluster: Cluster) -> None:
    cluster.start({0: 0})
    log = [entry(n, states.EMPTY, b"id-%02d" % n, pid=n, at_ms=NOW_MS) for n in range(10)]
    log += [entry(10 + n, states.EXPIRED, b"id-%02d" % n, at_ms=NOW_MS) for n in range(0, 10, 2)]
    apply(cluster, log)
    later_ms = NOW_MS + 91 * DAY_MS
    retention = Retention(cluster.engine, cluster.lease, rows_at_once=4)
    gone = [deleted(retention, later_ms, cluster, schema.producer_ids) for _ in range(4)]
    assert gone == [(2,), (2,), (1,), (0,)]
    left = rows(cluster.engine, schema.producer_ids, cluster.id)
    assert [row["producer_id"] for row in left] == [1, 3, 5, 7, 9]


def test_a_call_deletes_a_bounded_number_and_reports_if_more_is_left(cluster: Cluster) -> None:
    cluster.start({0: 0})
    log: list[Entry] = []
    for n in range(5):
        log += aborted(len(log), NOW_MS - 60_000 * n, b"id-%d" % n)
        log.append(entry(len(log), states.EXPIRED, b"id-%d" % n, at_ms=NOW_MS - 1_000))
    apply(cluster, log)
    retention = Retention(cluster.engine, cluster.lease, rows_at_once=4, ids_at_once=2)
    tables = (schema.transitions, schema.transactional_ids)
    done = [delete(retention, LATER_MS, cluster, *tables) for _ in range(5)]
    assert done == [((4, 2), True), ((4, 2), True), ((4, 1), True), ((3, 0), False), ((0, 0), False)]
    assert state_counts(cluster.engine, cluster.id) == {}


def test_minutes_of_the_cluster_and_gaps_are_kept_for_a_month(cluster: Cluster) -> None:
    cluster.start({0: 0})
    log = committed(5, NOW_MS)
    cluster.writer.apply(batch(log, span(0, 8, gap=Gap(0, 5, "retention"))), NOW_MS)
    retention = Retention(cluster.engine, cluster.lease)
    tables = (schema.cluster_minutes, schema.data_gaps)
    assert deleted(retention, NOW_MS + 30 * DAY_MS, cluster, *tables) == (0, 0)
    assert deleted(retention, NOW_MS + 32 * DAY_MS, cluster, *tables) == (1, 1)


def test_volume_and_markers_are_deleted_together_with_the_history(cluster: Cluster) -> None:
    days = (0, 1, 2)
    volumes = [Volume("pay", 0, NOW_MS + day * DAY_MS, 1, 9, 0, 0, 0) for day in days]
    markers = [
        Marker("pay", 0, 0, 10 * day + n, 7, 0, 1, True, NOW_MS + day * DAY_MS) for day in days for n in range(6)
    ]
    read_ = TopicRange("pay", span(0, 3))
    LedgerWriter(cluster.engine, cluster.lease).apply(LedgerBatch((read_,), tuple(volumes), tuple(markers)), NOW_MS)
    retention = Retention(cluster.engine, cluster.lease, keep=Keep(history=5 * DAY_MS), rows_at_once=2)
    tables = (schema.partition_markers, schema.partition_minutes)
    done = [delete(retention, NOW_MS + day * DAY_MS + 1, cluster, *tables) for day in (4, 5, 20, 20, 20)]
    assert done == [((0, 0), False), ((6, 2), True), ((10, 2), True), ((2, 0), False), ((0, 0), False)]


def test_rejects_and_resolved_findings_are_kept_as_long_as_configured(cluster: Cluster) -> None:
    cluster.start({0: 0})
    broken = Reject(0, 0, 3, "value version 9", b"pay", b"key", b"value")
    cluster.writer.apply(batch([], span(0, 4))._replace(rejects=(broken,)), NOW_MS)
    about = observe(Kind.OVERDUE)
    (opened,) = reconcile({}, RoundResult((about,), frozenset()), NOW_MS, "kafka")
    (still_open,) = reconcile({}, RoundResult((observe(Kind.LONG_RUNNING),), frozenset()), NOW_MS, "kafka")
    over = opened._replace(
        finding=replace(
            opened.finding, life=replace(opened.finding.life, status=Status.RESOLVED, resolved_at_ms=NOW_MS)
        )
    )
    FindingWriter(cluster.engine, cluster.lease).save([over, still_open], NOW_MS)
    retention = Retention(cluster.engine, cluster.lease, keep=Keep(rejects=DAY_MS, findings=2 * DAY_MS))
    tables = (schema.rejects, schema.findings)
    gone = [deleted(retention, NOW_MS + days * DAY_MS + 1, cluster, *tables) for days in (0, 1, 2, 60)]
    assert gone == [(0, 0), (1, 0), (0, 1), (0, 0)]
    (left,) = rows(cluster.engine, schema.findings, cluster.id)
    assert left["kind"] == Kind.LONG_RUNNING, "an open finding stays"


def test_the_audit_is_kept_for_more_than_a_year(cluster: Cluster) -> None:
    attempt = Attempt(NOW_MS, "f", "ops", MarkerType.ABORT, "orders", 0, 7, 0, 3, 100, Outcome.WRITTEN)
    audit_events.record_attempt(cluster.engine, cluster.id, attempt)
    retention = Retention(cluster.engine, cluster.lease)
    tables = (schema.audit, schema.audit_events)
    gone = [deleted(retention, NOW_MS + days * DAY_MS, cluster, *tables) for days in (366, 400, 401)]
    assert gone == [(0, 0), (0, 0), (1, 1)]


def test_ids_of_a_log_are_kept_until_it_is_read_again_completely(cluster: Cluster) -> None:
    """When a partition of the transaction log is read again, its expired ids may come back. The counts of these ids
    must then continue, so the rows of the ids must still exist."""
    seed(cluster)
    begun = span(0, 0, generation=1, end=50, gap=Gap(20, 20, "away"))
    cluster.writer.apply(batch([], begun), LATER_MS)
    much_later_ms = LATER_MS + 2 * HISTORY_MS
    retention = Retention(cluster.engine, cluster.lease)
    assert deleted(retention, much_later_ms, cluster, schema.transactional_ids) == (0,)
    cluster.writer.apply(batch([], span(0, 20, generation=1, end=20, counts=False)), much_later_ms)
    assert deleted(retention, much_later_ms, cluster, schema.transactional_ids) == (2,)


def test_a_lagging_tailed_partition_does_not_keep_ids(cluster: Cluster) -> None:
    seed(cluster)
    behind = TopicRange("pay", span(0, 3, end=99))
    LedgerWriter(cluster.engine, cluster.lease).apply(LedgerBatch((behind,)), NOW_MS)
    cluster.writer.apply(batch([], span(0, 0, generation=1, end=20, gap=Gap(20, 20, "away"))), LATER_MS)
    cluster.writer.apply(batch([], span(0, 20, generation=1, end=20, counts=False)), LATER_MS)
    retention = Retention(cluster.engine, cluster.lease)
    assert deleted(retention, LATER_MS + 2 * HISTORY_MS, cluster, schema.transactional_ids) == (2,)


def test_rows_of_other_clusters_stay_unchanged(cluster: Cluster, new_cluster: Any) -> None:
    other = new_cluster()
    for one in (cluster, other):
        seed(one)
    before = everything(other.engine, other.id)
    Retention(cluster.engine, cluster.lease).delete_old(LATER_MS + 100 * DAY_MS)
    assert everything(other.engine, other.id) == before


def test_retention_without_the_lease_deletes_nothing(cluster: Cluster) -> None:
    seed(cluster)
    before = everything(cluster.engine, cluster.id)
    assert take_over(cluster.engine, cluster.id) is not None
    with pytest.raises(LeaseLost):
        Retention(cluster.engine, cluster.lease).delete_old(LATER_MS)
    assert everything(cluster.engine, cluster.id) == before


@only_on("sqlite")
def test_every_query_uses_an_index(cluster: Cluster) -> None:
    seed(cluster)
    with statements(cluster.engine) as ran:
        Retention(cluster.engine, cluster.lease, rows_at_once=1).delete_old(LATER_MS)
    steps = steps_of(cluster.engine, ran)
    assert not [step for step in steps if step.startswith("SCAN") or "TEMP B-TREE" in step], steps

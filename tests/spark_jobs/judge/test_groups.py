"""Tests of findings about blocked groups, from stored groups and partitions. A finding opens if a group waits behind a
hanging transaction, and ends when the partition or the group advances."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.domain.findings.finding import Finding, Key, Subject
from service.domain.findings.kinds import Kind, Resolution, Severity, Status
from service.domain.findings.lifecycle import reconcile
from service.domain.findings.stall_causes import COMMIT_EXPECTED_MS
from service.domain.partitions.group_offsets import GroupOffset
from service.store.queries import partitions
from service.store.writers.findings import FindingWriter, load
from service.store.writers.groups import GroupWriter
from service.views.partitions import judged as judged_partitions
from spark_jobs.judge.groups import BlockedGroupObserver
from tests.helpers.partitions import (
    LSO,
    WithPartitions,
    entry,
    hanging_finding,
    moving_partition,
    owner,
    read,
    stalled_partition,
)
from tests.helpers.stores import NOW_MS
from tests.service.domain.findings.builders import context

BILLING = (Kind.BLOCKED_GROUP, Subject(group="billing", topic="orders", partition=0))
LATER_MS = NOW_MS + COMMIT_EXPECTED_MS


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[WithPartitions]:
    cluster = WithPartitions(f"sqlite:///{tmp_path / 'store.db'}")
    cluster.read([owner(b"p\x00y")])
    cluster.look(stalled_partition(), read(entry()))
    yield cluster
    cluster.close()


def see(cluster: WithPartitions, now_ms: int, *groups: GroupOffset) -> None:
    GroupWriter(cluster.engine, cluster.lease).replace(groups, now_ms)


def judge(cluster: WithPartitions, now_ms: int) -> dict[Key, Finding]:
    """Runs one round of the judge. Returns the findings in the store after the round."""
    looks = BlockedGroupObserver(cluster.id, None)
    with cluster.engine.connect() as connection:
        rows = partitions.stalled(connection, cluster.id)
        judged = [
            (entry.entry, entry.relation)
            for row in judged_partitions.judge(connection, cluster.id, rows)
            for entry in row.entries
        ]
        known = load(connection, cluster.id, now_ms)
        groups = partitions.read_affected_groups(connection, cluster.id)
        look = looks.look(connection, context(until_ms=now_ms), known, groups, judged)
    FindingWriter(cluster.engine, cluster.lease).save(reconcile(known, look, now_ms, "kafka-orders"), now_ms)
    with cluster.engine.connect() as connection:
        return load(connection, cluster.id, now_ms)


def test_a_group_is_blocked_by_a_hang_until_the_partition_advances(cluster: WithPartitions) -> None:
    cluster.read([owner(b"p\x00y", partition=9, start_ms=NOW_MS)])  # the id's present transaction is elsewhere
    cluster.see(hanging_finding(name=b"p\x00y"))
    seen = (
        GroupOffset("billing", "orders", 0, LSO, 2, False),
        GroupOffset("other", "orders", 0, LSO + 3, 1, False),
    )
    see(cluster, NOW_MS, *seen)
    assert BILLING not in judge(cluster, NOW_MS)
    see(cluster, LATER_MS, *seen)
    found = judge(cluster, LATER_MS)
    assert [key for key in found if key[0] == Kind.BLOCKED_GROUP] == [BILLING]
    finding = found[BILLING]
    assert (finding.status, finding.severity) == (Status.CONFIRMED, Severity.CRITICAL)
    assert r"the hanging transaction of p\u{0}y" in finding.summary
    cluster.look(moving_partition(at_ms=LATER_MS + 1), at_ms=LATER_MS + 1)
    finding = judge(cluster, LATER_MS + 2)[BILLING]
    assert (finding.status, finding.life.resolution) == (Status.RESOLVED, Resolution.HEALED)


def test_a_group_that_advances_by_itself_is_no_longer_blocked(cluster: WithPartitions) -> None:
    cluster.read([owner(b"p\x00y", partition=9, start_ms=NOW_MS)])
    cluster.see(hanging_finding(name=b"p\x00y"))
    for now_ms in (NOW_MS, LATER_MS):
        see(cluster, now_ms, GroupOffset("billing", "orders", 0, LSO, 2, False))
    assert judge(cluster, LATER_MS)[BILLING].is_open
    see(cluster, LATER_MS + 1, GroupOffset("billing", "orders", 0, LSO + 5, 2, False))
    assert not judge(cluster, LATER_MS + 1)[BILLING].is_open


def test_a_group_behind_a_healthy_open_transaction_has_no_finding(cluster: WithPartitions) -> None:
    for now_ms in (NOW_MS, LATER_MS):
        see(cluster, now_ms, GroupOffset("billing", "orders", 0, LSO, 2, False))
    assert judge(cluster, LATER_MS) == {}

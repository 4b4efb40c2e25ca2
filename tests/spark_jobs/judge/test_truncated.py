"""Tests of the limits on each kind of finding. The store has the number of omitted findings by kind, and the service
returns it.

The tests use the real limits, but reduce a few that they cannot reach.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from service.domain.findings.kinds import QUIET_MS, Kind
from service.domain.findings.lifecycle import MOST_OPEN
from service.domain.partitions.group_offsets import GroupOffset
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Gap
from service.kafka.producers import ActiveProducer
from service.store.queries import findings, id_events, judge_inputs
from service.store.writers.findings import load
from service.store.writers.groups import GroupWriter
from service.views.partitions import judged as judged_partitions
from service.views.partitions.judged import REASONS_SHOWN
from spark_jobs.judge.groups import BlockedGroupObserver
from tests.helpers.stores import client_of
from tests.service.store.conftest import Cluster, only_on, patient
from tests.service.store.logs import NOW_MS, batch, entry
from tests.service.store.logs import read as span
from tests.service.store.looks import described, look, silent
from tests.service.store.looks import entry as open_entry
from tests.spark_jobs.judge.test_judge import Judged, judged
from tests.spark_jobs.judge.test_open_entries import Lab, lab

pytestmark = only_on("sqlite")
__all__ = ["judged", "lab"]

S = 1_000


def stored(cluster: Cluster) -> Mapping[str, int]:
    with cluster.engine.connect() as connection:
        return findings.truncated(connection, cluster.id)


def open_now(cluster: Cluster, kind: str, now_ms: int) -> int:
    with cluster.engine.connect() as connection:
        found = load(connection, cluster.id, now_ms)
    return sum(finding.is_open for (of_kind, _), finding in found.items() if of_kind == kind)


def late(judged: Judged, number: int) -> None:
    """Stores `number` ids whose transactions have been open for ten minutes, with a timeout of one minute."""
    start_ms = NOW_MS - 600_000
    ids = [entry(n, states.ONGOING, b"id-%05d" % n, start_ms=start_ms, at_ms=start_ms) for n in range(number)]
    judged.log(ids, NOW_MS)


def test_ids_that_are_not_read_are_counted(judged: Judged) -> None:
    """Of 700 overdue ids, 30 have a finding each, 470 share one, and 200 are omitted."""
    late(judged, judge_inputs.IDS_READ + 200)
    judged.judge.round(NOW_MS)
    assert open_now(judged.cluster, Kind.OVERDUE, NOW_MS) == 31
    with judged.reader.connect() as connection:
        found = load(connection, judged.cluster.id, NOW_MS)
    reported = sum(finding.life.count for (kind, _), finding in found.items() if kind == Kind.OVERDUE)
    assert (reported, stored(judged.cluster)[Kind.OVERDUE]) == (judge_inputs.IDS_READ, 200)


def test_the_next_judge_replaces_the_stored_counts(judged: Judged) -> None:
    late(judged, judge_inputs.IDS_READ + 200)
    judged.judge.round(NOW_MS)
    ended = [
        entry(700 + n, states.COMPLETE_ABORT, b"id-%05d" % n, start_ms=NOW_MS - 600_000, at_ms=NOW_MS)
        for n in range(690)
    ]
    judged.log(ended, NOW_MS + S)
    judged.judge = judged.new_judge()
    judged.judge.round(NOW_MS + S)
    assert stored(judged.cluster) == {}


def test_gaps_and_partitions_beyond_the_limits_are_counted(cluster: Cluster, judged: Judged) -> None:
    """230 partitions of the log have a data gap. Of these gaps, 200 have a finding each, and 30 are omitted."""
    for n in range(1, 231):
        cluster.writer.apply(batch([], span(0, 0, partition=n, gap=Gap(0, 5, "retention"))), NOW_MS)
    judged.at(NOW_MS + S)
    assert open_now(cluster, Kind.DATA_GAP, NOW_MS) == MOST_OPEN
    assert stored(cluster)[Kind.DATA_GAP] == 30
    judged.at(NOW_MS + QUIET_MS + 2 * S)
    assert Kind.DATA_GAP not in stored(cluster), (
        "gaps older than a quarter of an hour have no finding, so none is omitted"
    )


def test_events_that_come_faster_than_they_are_read_are_counted(
    judged: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_events, "EVENTS_READ", 4)
    judged.at(NOW_MS)
    judged.timeouts(NOW_MS + S, *(f"id-{n}" for n in range(10)))
    judged.at(NOW_MS + S)
    assert stored(judged.cluster)[Kind.TIMED_OUT] == 6
    judged.at(NOW_MS + S + QUIET_MS - 1)
    assert stored(judged.cluster)[Kind.TIMED_OUT] == 6
    judged.at(NOW_MS + 2 * S + QUIET_MS)
    assert stored(judged.cluster) == {}


def test_events_that_are_dropped_before_they_are_reported_are_counted(
    judged: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_events, "EVENTS_READ", 4)
    judged.at(NOW_MS)
    for n in range(3):
        judged.timeouts(NOW_MS + n * S, f"id-{n}-a", f"id-{n}-b")
        judged.at(NOW_MS + n * S)
    assert stored(judged.cluster)[Kind.TIMED_OUT] == 2


def test_reported_events_that_are_forgotten_are_not_counted(judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(id_events, "EVENTS_READ", 4)
    judged.at(NOW_MS)
    for n in range(6):
        now_ms = NOW_MS + n * 120 * S
        judged.timeouts(now_ms, f"app-{n}")
        judged.at(now_ms)
        judged.at(now_ms + 100 * S)
    assert stored(judged.cluster) == {}


def orphans(lab: Lab, now_ms: int, number: int) -> None:
    entries = [open_entry(1_000 + n, 100 + n) for n in range(number)]
    lab.watched.see(look(now_ms, hw=1_000), described(now_ms, *entries), now_ms=now_ms)


def test_hanging_transactions_beyond_the_limit_are_counted(lab: Lab, url: str) -> None:
    lab.ended(NOW_MS)
    orphans(lab, NOW_MS, MOST_OPEN + 50)
    lab.round(NOW_MS + S)
    others = tuple(ActiveProducer(1_000 + n, 0, 1, -1, 3, 100 + n) for n in range(MOST_OPEN + 50))
    lab.ends(NOW_MS + 1_500, others=others)
    lab.round(NOW_MS + 2 * S)
    assert open_now(lab.cluster, Kind.HANGING, NOW_MS) == MOST_OPEN
    assert stored(lab.cluster) == {Kind.HANGING: 50}
    with client_of(patient(url)) as client:
        assert client.get("/api/v1/clusters/cluster-0").json()["truncated"] == [{"kind": Kind.HANGING, "count": 50}]
        page = client.get("/metrics").text
    assert 'kafka_txn_findings_truncated{cluster="cluster-0",kind="hanging_transaction"} 50.0' in page
    assert 'kafka_txn_findings_truncated{cluster="cluster-0",kind="data_gap"} 0.0' in page


def test_open_entries_that_are_not_judged_are_counted(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.judge.open_entries.MOST_CASES", 1)
    lab.ended(NOW_MS)
    orphans(lab, NOW_MS, 3)
    lab.round(NOW_MS + S)
    assert stored(lab.cluster) == {Kind.HANGING: 2}


def test_partitions_that_are_not_read_are_counted(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.store.queries.partitions.STALLED_READ", 1)
    monkeypatch.setattr("service.store.queries.partitions.stalled.__defaults__", (1,))
    lab.watched.see(*(look(NOW_MS, partition=n) for n in range(3)))
    lab.round(NOW_MS + S)
    assert stored(lab.cluster) == dict.fromkeys((Kind.HANGING, Kind.ADOPTED, Kind.UNREPLICATED), 2)


def test_groups_that_are_not_read_are_counted(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.store.queries.partitions.GROUPS_READ", 2)
    GroupWriter(cluster.engine, cluster.lease).replace(
        [GroupOffset(f"g{n}", "orders", 0, 100, 1, False) for n in range(5)], NOW_MS
    )
    with cluster.engine.connect() as connection:
        assert BlockedGroupObserver(cluster.id, None).unread(connection) == 3


def test_reasons_that_are_not_listed_are_counted(lab: Lab) -> None:
    lab.watched.see(*(silent(NOW_MS, f"broker {n} does not answer", partition=n) for n in range(REASONS_SHOWN + 3)))
    with lab.reader.connect() as connection:
        missing = judged_partitions.coverage(connection, lab.cluster.id).missing
    assert sum(partitions.partitions for partitions in missing) == REASONS_SHOWN + 3
    assert (missing[0].why, missing[0].partitions) == (judged_partitions.OTHER_REASONS, 3)

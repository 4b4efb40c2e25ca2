"""Tests of the search for the decision behind a marker, in transition rows, commit minutes, current states and
findings. The queries are bounded."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import Connection, update

from service.domain.findings.finding import RoundResult, Subject
from service.domain.findings.kinds import Kind, Resolution, Status
from service.domain.findings.lifecycle import reconcile
from service.domain.partitions.facts import MarkerType
from service.domain.partitions.marker_causes import CLOCKS_MS, KnownPeriod, MarkerCause, cause_of_marker
from service.domain.transaction_log import states
from service.domain.transaction_log.causes import Cause, CauseCode, Confidence
from service.domain.transaction_log.facts import Gap
from service.store.queries import decisions
from service.store.queries.clusters import find_cluster
from service.store.queries.decisions import coordinator_decisions, hanging_transactions, known_period
from service.store.schema import findings
from service.store.writers.findings import FindingWriter
from tests.helpers.findings import observe
from tests.service.store.conftest import Cluster
from tests.service.store.histories import MINUTE, aborted, committed
from tests.service.store.logs import NOW_MS, Entry, batch, entry, read

COMMIT, OWN, ADMIN = (
    Cause(CauseCode.COMMIT, Confidence.LIKELY),
    Cause(CauseCode.CLIENT_ABORT, Confidence.LIKELY),
    Cause(CauseCode.ADMIN, Confidence.LIKELY),
)


def apply(cluster: Cluster, log: list[Entry], lo: int = 0, end: int | None = None) -> None:
    cluster.start({0: 0})
    cluster.writer.apply(batch(log, read(lo, lo + len(log), end=end)), NOW_MS)


def why(
    cluster: Cluster,
    marker: MarkerType,
    at_ms: int,
    pid: int = 7,
    known: KnownPeriod | None = None,
    epoch: int | None = None,
) -> Cause | None:
    with cluster.engine.connect() as connection:
        found = coordinator_decisions(connection, cluster.id, b"pay", pid, at_ms, at_ms)
    cause = cause_of_marker(marker, epoch, at_ms, found.decisions, known)
    return cause and cause.cause


def test_a_marker_matches_the_row_of_an_abort_or_the_minute_of_a_commit(cluster: Cluster) -> None:
    log = [entry(0, states.EMPTY, at_ms=MINUTE - 600_000), *committed(1, MINUTE - 300_000), *committed(4, MINUTE)]
    log += [*aborted(7, MINUTE - 200_000), *committed(10, MINUTE - 100_000, markers_ms=30_000)]
    apply(cluster, sorted(log, key=lambda entry: entry.record.timestamp_ms))
    everything = KnownPeriod(0, 2**62)
    assert why(cluster, MarkerType.COMMIT, MINUTE - 300_005, known=everything) == COMMIT
    assert why(cluster, MarkerType.COMMIT, MINUTE - 5, known=everything) == COMMIT
    assert why(cluster, MarkerType.COMMIT, MINUTE - 125_000, known=everything) == COMMIT, (
        "the slow markers of this commit were still being written"
    )
    assert why(cluster, MarkerType.COMMIT, MINUTE - 200_005, known=everything) == ADMIN
    assert why(cluster, MarkerType.ABORT, MINUTE - 200_005, known=everything) == OWN
    assert why(cluster, MarkerType.ABORT, MINUTE - 200_005, pid=8, known=everything) == ADMIN, (
        "the abort belongs to another producer id"
    )
    assert why(cluster, MarkerType.ABORT, MINUTE - 300_005, known=everything) == ADMIN
    assert why(cluster, MarkerType.ABORT, MINUTE - 300_005) is None


def test_a_marker_with_another_epoch_than_the_decision_was_manual(cluster: Cluster) -> None:
    apply(cluster, [entry(0, states.EMPTY, at_ms=MINUTE - 600_000), *aborted(1, MINUTE - 200_000)])
    everything = KnownPeriod(0, 2**62)
    assert why(cluster, MarkerType.ABORT, MINUTE - 200_005, known=everything, epoch=0) == OWN
    assert why(cluster, MarkerType.ABORT, MINUTE - 200_005, known=everything, epoch=1) == ADMIN
    assert why(cluster, MarkerType.ABORT, MINUTE - 200_005, epoch=1) is None


def test_a_commit_that_is_still_under_way_matches_any_later_marker(cluster: Cluster) -> None:
    log = [entry(0, states.EMPTY, at_ms=MINUTE - 90_000), *committed(1, MINUTE - 60_000)[:2]]
    apply(cluster, log)
    for at_ms in (MINUTE - 60_000, MINUTE, MINUTE + 3_600_000):
        assert why(cluster, MarkerType.COMMIT, at_ms) == COMMIT
    assert why(cluster, MarkerType.COMMIT, MINUTE - 90_000) is None


def test_an_abort_without_its_completion_is_still_under_way(cluster: Cluster) -> None:
    apply(cluster, [entry(0, states.EMPTY, at_ms=MINUTE - 90_000), *aborted(1, MINUTE - 60_000)[:2]])
    assert why(cluster, MarkerType.ABORT, MINUTE) == OWN


@pytest.mark.parametrize(
    ("decisions_", "marker", "cause"),
    [
        # the leader appended the marker late; no operator wrote it
        ((states.PREPARE_ABORT, states.PREPARE_ABORT, states.COMPLETE_ABORT), MarkerType.ABORT, OWN),
        ((states.PREPARE_COMMIT, states.PREPARE_COMMIT), MarkerType.COMMIT, COMMIT),
    ],
    ids=["abort, complete by now", "commit"],
)
def test_an_end_decided_twice_is_under_way_since_the_first_decision(
    cluster: Cluster, decisions_: tuple[int, ...], marker: MarkerType, cause: Cause
) -> None:
    start_ms, path = MINUTE - 90_000, (states.ONGOING, *decisions_)
    apply(cluster, [entry(i, state, start_ms=start_ms, at_ms=start_ms + 20_000 * i) for i, state in enumerate(path)])
    for after_ms in (25_000, 55_000):
        assert why(cluster, marker, start_ms + after_ms, known=KnownPeriod(0, 2**62)) == cause


def test_a_history_that_is_too_long_returns_the_time_it_begins(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[Entry] = []
    for minute in (50, 40, 30, 20):
        log += aborted(len(log), MINUTE - minute * 60_000)
    apply(cluster, log)
    monkeypatch.setattr(decisions, "_MOST_ROWS", 3)
    with cluster.engine.connect() as connection:
        found = coordinator_decisions(connection, cluster.id, b"pay", 7, MINUTE - 1_200_000, MINUTE)
        assert [decision.from_ms for decision in found.decisions] == [MINUTE - 1_200_010]
        assert found.since_ms == MINUTE - 1_800_000
        earlier = coordinator_decisions(connection, cluster.id, b"pay", 7, MINUTE - 3_000_000, MINUTE - 2_400_000)
        assert [decision.from_ms for decision in earlier.decisions] == [MINUTE - 2_400_010]


def all_known(cluster: Cluster, connection: Connection) -> KnownPeriod | None:
    row = find_cluster(connection, "cluster-0")
    assert row is not None
    return known_period(connection, row)


def test_the_known_period_lasts_from_the_oldest_row_to_the_log_end(cluster: Cluster) -> None:
    with cluster.engine.connect() as connection:
        assert all_known(cluster, connection) is None
    later = NOW_MS + 600_000
    log = [entry(0, states.EMPTY, at_ms=later - 60_000), *aborted(1, later)]
    cluster.start({0: 0})
    cluster.writer.apply(batch(log, read(0, 4, end=5, asked_at_ms=later)), later)
    with cluster.engine.connect() as connection:
        assert all_known(cluster, connection) is None, "the log has records beyond the read range"
    cluster.writer.apply(batch([], read(4, 5, asked_at_ms=later)), later + 1_000)
    with cluster.engine.connect() as connection:
        assert all_known(cluster, connection) == KnownPeriod(later - 60_000 + CLOCKS_MS, later + 1_000 - CLOCKS_MS)
    gap = Gap(5, 9, "retention")
    cluster.writer.apply(batch([], read(5, 9, gap=gap, asked_at_ms=later)), later + 500_000)
    with cluster.engine.connect() as connection:
        known = all_known(cluster, connection)
    assert known is not None
    assert known.from_ms == later + 500_000 + CLOCKS_MS


def test_findings_of_hanging_transactions_are_found_by_partition(cluster: Cluster) -> None:
    subjects = [Subject("orders", 3, b"pay", pid, 0, start) for pid, start in ((7, 40), (8, 50), (9, 60))]
    others = [Subject("orders", 2, b"pay", 7, 0, 40), Subject("payments", 3, b"pay", 7, 0, 40)]
    observed = tuple(observe(Kind.HANGING)._replace(subject=subject) for subject in (*subjects, *others))
    look = RoundResult(observed, frozenset({Kind.HANGING}), frozenset({0}), True)
    changes = [
        change._replace(
            finding=replace(
                change.finding, life=replace(change.finding.life, status=Status.CONFIRMED, confirmed_at_ms=NOW_MS)
            )
        )
        for change in reconcile({}, look, NOW_MS, "kafka")
    ]
    FindingWriter(cluster.engine, cluster.lease).save(changes, NOW_MS)
    for pid, resolution in ((8, Resolution.FOREIGN_ABORT), (9, Resolution.OUR_MARKER)):
        with cluster.engine.begin() as connection:
            connection.execute(
                update(findings)
                .where(findings.c.producer_id == pid)
                .values(status=Status.RESOLVED, resolved_at_ms=NOW_MS + 9_000, resolution=resolution)
            )
    with cluster.engine.connect() as connection:
        found = {
            hanging_transaction.producer_id: hanging_transaction
            for hanging_transaction in hanging_transactions(connection, cluster.id, "orders", 3)
        }
    assert {pid: (transaction.start_offset, transaction.is_open) for pid, transaction in found.items()} == {
        7: (40, True),
        8: (50, False),
        9: (60, False),
    }
    assert found[7].by_hand == ()
    assert cause_of_marker(MarkerType.ABORT, None, NOW_MS + 8_000, found[8].by_hand, None) == MarkerCause(
        ADMIN, by_hand=True
    )
    assert cause_of_marker(MarkerType.COMMIT, None, NOW_MS + 8_000, found[8].by_hand, None) is None
    assert cause_of_marker(MarkerType.ABORT, None, NOW_MS + 20_000, found[8].by_hand, None) is None
    for marker in MarkerType:
        assert cause_of_marker(marker, None, NOW_MS + 8_000, found[9].by_hand, None) == MarkerCause(
            Cause(CauseCode.ADMIN, Confidence.CERTAIN)
        )

"""Tests that the judge's queries return a limited number of rows and count the omitted ones, on every kind of
database."""

from __future__ import annotations

from typing import Any

import pytest

from service.domain.findings.finding import RoundResult
from service.domain.findings.kinds import Kind, Status
from service.domain.findings.lifecycle import reconcile
from service.domain.transaction_log import states
from service.domain.transaction_log.causes import CauseCode
from service.domain.transaction_log.facts import Gap, Reject
from service.store.queries import findings, id_events, judge_inputs
from service.store.queries.findings import FindingSelection
from service.store.writers.findings import FindingWriter
from tests.service.domain.findings.test_lifecycle import observe
from tests.service.store.conftest import Cluster
from tests.service.store.histories import aborted
from tests.service.store.logs import NOW_MS, Entry, batch, entry, read

MORE = 7
NONE_MS = NOW_MS - 86_400_000


def apply(cluster: Cluster, entries: list[Entry], **more: Any) -> None:
    cluster.writer.apply(batch(entries, read(0, len(entries)))._replace(**more), NOW_MS)


def test_the_number_of_ids_that_are_read_is_bounded(cluster: Cluster) -> None:
    cluster.start({0: 0})
    number = judge_inputs.IDS_READ + MORE
    start_ms = NOW_MS - 3_600_000
    apply(cluster, [entry(n, states.ONGOING, b"id-%d" % n, start_ms=start_ms, at_ms=start_ms) for n in range(number)])
    with cluster.engine.connect() as connection:
        for some in (
            judge_inputs.open_ids(connection, cluster.id, NOW_MS),
            judge_inputs.timed_out_ids(connection, cluster.id, NOW_MS),
        ):
            assert (len(some.read), some.unread) == (judge_inputs.IDS_READ, MORE)
        assert judge_inputs.open_ids(connection, cluster.id, start_ms - 1) == ([], 0)


@pytest.mark.parametrize(("most", "unread"), [(100_000, MORE), (3, 3)], ids=["all", "up to the limit of counting"])
def test_the_number_of_gaps_that_are_read_is_bounded(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, most: int, unread: int
) -> None:
    monkeypatch.setattr(judge_inputs, "GAPS_READ", 2)
    monkeypatch.setattr(judge_inputs, "MOST_COUNTED", most)
    cluster.start({0: 0})
    for n in range(judge_inputs.GAPS_READ + MORE):
        cluster.writer.apply(batch([], read(0, 0, partition=n + 1, gap=Gap(0, 5, "retention"))), NOW_MS)
    with cluster.engine.connect() as connection:
        some = judge_inputs.gaps(connection, cluster.id, NONE_MS)
        assert (len(some.read), some.unread) == (judge_inputs.GAPS_READ, unread)
        assert judge_inputs.gaps(connection, cluster.id, NOW_MS + 1) == ([], 0)


def test_the_number_of_undecoded_ids_that_are_read_is_bounded(cluster: Cluster) -> None:
    cluster.start({0: 0})
    number = judge_inputs.UNDECODED_READ + MORE
    rejects = tuple(Reject(0, 0, n, "value version 9", b"id-%d" % n, b"", b"") for n in range(number))
    apply(cluster, [entry(n, states.UNKNOWN, b"id-%d" % n) for n in range(number)], rejects=rejects)
    with cluster.engine.connect() as connection:
        some = judge_inputs.undecoded(connection, cluster.id, NONE_MS)
        ((undecoded,), unread) = some
        assert (len(undecoded.names), len(undecoded.rejects), unread) == (number - MORE, number - MORE, MORE)


def test_the_number_of_events_that_are_read_is_bounded_by_cause(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_events, "EVENTS_READ", 2)
    cluster.start({0: 0})
    log: list[Entry] = []
    for n in range(5):
        log.append(entry(len(log), states.EMPTY, b"id-%d" % n, at_ms=NOW_MS))
        log += aborted(len(log), NOW_MS, b"id-%d" % n)
        log.append(entry(len(log), states.EXPIRED, b"id-%d" % n, at_ms=NOW_MS))
    apply(cluster, log)
    with cluster.engine.connect() as connection:
        newest = id_events.newest_sequence(connection)
        new = id_events.new_events(connection, cluster.id, 0, newest)
        assert id_events.new_events(connection, cluster.id, newest, newest) == ([], {})
    assert len(new.read) == 2
    all_ = {CauseCode.INITIALIZED: 5, CauseCode.EXPIRY: 5}
    for event in new.read:
        all_[event.cause] -= 1
    assert dict(new.unread) == all_


def test_new_counts_of_truncated_findings_replace_the_old_ones(cluster: Cluster) -> None:
    writer = FindingWriter(cluster.engine, cluster.lease)
    empty: dict[Kind, int] = {}
    for counts in ({Kind.DATA_GAP: 3, Kind.OVERDUE: 9}, {Kind.DATA_GAP: 4}, empty):
        writer.save_truncated(counts)
        with cluster.engine.connect() as connection:
            assert findings.truncated(connection, cluster.id) == counts


def test_the_findings_resolved_last_are_read_and_all_are_counted(cluster: Cluster) -> None:
    writer = FindingWriter(cluster.engine, cluster.lease)
    nothing = RoundResult((), frozenset({Kind.OVERDUE}), frozenset({0}))
    for n in range(5):  # opened in this order, resolved in the opposite one
        seen = RoundResult((observe(name=b"id-%d" % n),), frozenset())
        opened = reconcile({}, seen, NOW_MS + n, "kafka")
        writer.save(opened, NOW_MS + n)
        known = {(change.finding.kind, change.finding.subject): change.finding for change in opened}
        writer.save(reconcile(known, nothing, NOW_MS + 100 - n, "kafka"), NOW_MS + 100 - n)
    with cluster.engine.connect() as connection:
        shown = findings.resolved_last(connection, cluster.id, NOW_MS + 97, 2)
        assert [finding.life.resolved_at_ms for finding in shown] == [NOW_MS + 100, NOW_MS + 99]
        assert findings.count_resolved(connection, cluster.id, NOW_MS + 97) == 4
        assert findings.resolved_last(connection, cluster.id, NOW_MS + 101, 2) == []


def test_findings_are_counted_by_filter(cluster: Cluster) -> None:
    seen = RoundResult(tuple(observe(name=b"id-%d" % n) for n in range(3)), frozenset())
    FindingWriter(cluster.engine, cluster.lease).save(reconcile({}, seen, NOW_MS, "kafka"), NOW_MS)
    with cluster.engine.connect() as connection:
        confirmed = FindingSelection(statuses=frozenset({Status.CONFIRMED}))
        assert findings.count(connection, cluster.id, confirmed) == 3
        assert findings.count(connection, cluster.id, confirmed._replace(transactional_id=b"id-1")) == 1
        assert findings.count(connection, cluster.id, FindingSelection(statuses=frozenset({Status.RESOLVED}))) == 0

"""Tests of the judge over a real store, from records of the log to findings and other rows that the judge writes."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from sqlalchemy import Engine, select

from service.domain.findings.churn import UNUSED_MS
from service.domain.findings.fencing import SETTLES_WITHIN_MS
from service.domain.findings.finding import Finding
from service.domain.findings.kinds import QUIET_MS, Kind, Resolution, Severity
from service.domain.findings.rules import Rule, Rules
from service.domain.findings.settling import SKEW_MS
from service.domain.id_behaviour import IN_USE
from service.domain.partitions.facts import LogPlace, PartitionsBatch
from service.domain.reasons.unread import DESCRIBE, PartitionsUnresponsive
from service.domain.transaction_log import states
from service.domain.transaction_log.causes import Confidence
from service.domain.transaction_log.deadlines import ABORT_SLACK_MS
from service.store import clusters, lease, schema
from service.store.errors import LeaseLost
from service.store.finding_events import events_after, known_sequences
from service.store.queries import judge_inputs
from service.store.writers.findings import EVENTS_KEPT, FindingWriter, load
from service.store.writers.partitions import PartitionWriter
from spark_jobs.judge.judge import Judge
from tests.helpers.clocks import no_work
from tests.helpers.reasons import denied
from tests.service.store.conftest import Cluster, only_on
from tests.service.store.histories import committed
from tests.service.store.logs import NOW_MS, Entry, batch, entry, read

MINUTE_MS = 60_000


class Judged:
    """A cluster with one log partition, which is read piece by piece, and its judge."""

    def __init__(self, cluster: Cluster, reader: Engine, rules: Rules = Rules()) -> None:  # noqa: B008 - frozen
        self.cluster, self.reader, self.rules = cluster, reader, rules
        self.next_offset = 0
        self.judge = self.new_judge()

    def new_judge(self) -> Judge:
        writer = FindingWriter(self.cluster.engine, self.cluster.lease)
        return Judge(self.reader, writer, self.cluster.id, self.rules, processor_s=no_work)

    def log(self, entries: Sequence[Entry], now_ms: int, counts: bool = True, behind: int = 0) -> None:
        lo, hi = self.next_offset, self.next_offset + len(entries)
        span = read(lo, hi, end=hi + behind, asked_at_ms=now_ms, counts=counts)
        self.cluster.writer.apply(batch(entries, span), now_ms)
        self.next_offset = hi

    def at(self, now_ms: int) -> int:
        """Reads the log up to `now_ms`, and runs one round of the judge. Returns the number of changed findings."""
        self.log((), now_ms)
        return self.judge.round(now_ms)

    def found(self, now_ms: int = NOW_MS) -> dict[str, Finding]:
        with self.reader.connect() as connection:
            return {kind: finding for (kind, _), finding in load(connection, self.cluster.id, now_ms).items()}

    def timeouts(self, now_ms: int, *names: str, counts: bool = True) -> None:
        """Stores, for each id, a transaction that is aborted at `now_ms`, one second after its timeout."""
        entries: list[Entry] = []
        for name in names:
            key, start_ms, at = name.encode(), now_ms - 61_000, self.next_offset + len(entries)
            path = ((states.ONGOING, 0), (states.PREPARE_ABORT, 1), (states.COMPLETE_ABORT, 1))
            for n, (state, epoch) in enumerate(path):
                at_ms = start_ms if n == 0 else now_ms
                entries.append(entry(at + n, state, key, epoch=epoch, start_ms=start_ms, at_ms=at_ms, pid=100 + at))
        self.log(entries, now_ms, counts)


ALONE_MS = 17_000
"""Time (ms) after which a timeout is reported if no further timeout follows: longer than `settling.gap_ms` plus the
allowance for clocks."""


@pytest.fixture
def judged(cluster: Cluster, reader: Engine) -> Judged:
    cluster.start({0: 0})
    return Judged(cluster, reader)


def open_one(offset: int, start_ms: int, state: int = states.ONGOING, at_ms: int | None = None) -> Entry:
    return entry(offset, state, start_ms=start_ms, at_ms=start_ms if at_ms is None else at_ms)


def test_an_overdue_transaction_opens_and_ends_with_its_abort(judged: Judged) -> None:
    start_ms = NOW_MS - 90_000
    judged.log([open_one(0, start_ms)], NOW_MS)
    assert judged.judge.round(NOW_MS) == 1
    found = judged.found()[Kind.OVERDUE]
    assert (found.severity, found.subject.transactional_id, found.observation.log_partition) == (
        Severity.WARNING,
        b"pay",
        0,
    )
    assert "orders-0 and orders-3" in found.summary
    assert (
        "transaction.abort.timed.out.transaction.cleanup.interval.ms could not be read"
        in found.observation.evidence[1].text
    )
    later = NOW_MS + 5_000
    path = (states.PREPARE_ABORT, states.COMPLETE_ABORT)
    judged.log([open_one(1 + n, start_ms, state, later) for n, state in enumerate(path)], later)
    judged.judge.round(later)
    assert judged.found()[Kind.OVERDUE].life.resolution == Resolution.HEALED
    assert judged.found()[Kind.OVERDUE].life.resolved_at_ms == later


def test_a_log_that_was_not_read_to_its_end_lately_is_not_judged(judged: Judged) -> None:
    judged.log([open_one(0, NOW_MS - 90_000)], NOW_MS, behind=1)
    assert judged.judge.round(NOW_MS) == 0
    assert judged.at(NOW_MS + 1_000) == 1
    gone_ms = NOW_MS + 20_000  # Kafka has not answered since, so nothing was read
    assert judged.judge.round(gone_ms) == 0
    assert judged.found()[Kind.OVERDUE].is_open


def test_a_decided_transaction_that_does_not_complete_has_a_finding(judged: Judged) -> None:
    judged.log([open_one(0, NOW_MS - 90_000), open_one(1, NOW_MS - 90_000, states.PREPARE_COMMIT, NOW_MS)], NOW_MS)
    assert judged.judge.round(NOW_MS) == 0
    assert judged.at(NOW_MS + 10_000) == 1
    assert judged.found()[Kind.STUCK_COMPLETION].severity == Severity.WARNING
    judged.at(NOW_MS + 70_000)
    assert judged.found()[Kind.STUCK_COMPLETION].severity == Severity.CRITICAL


def test_rules_of_the_operator_are_applied(cluster: Cluster, reader: Engine) -> None:
    cluster.start({0: 0})
    judged = Judged(cluster, reader, Rules((Rule(prefix="pa", long_after_ms=5_000, owner="payments"),)))
    judged.log([open_one(0, NOW_MS - 6_000)], NOW_MS)
    judged.judge.round(NOW_MS)
    found = judged.found()[Kind.LONG_RUNNING]
    assert (found.severity, found.observation.owner) == (Severity.WARNING, "payments")
    assert found.observation.self_heals_at_ms == NOW_MS - 6_000 + 60_000 + 10_000 + ABORT_SLACK_MS


def test_timeouts_are_counted_once_across_restarts_of_the_judge(judged: Judged) -> None:
    judged.timeouts(NOW_MS, "pay")
    judged.judge.round(NOW_MS)
    judged.timeouts(NOW_MS + MINUTE_MS, "pay")
    judged.judge.round(NOW_MS + MINUTE_MS)
    judged.judge = judged.new_judge()  # the driver was restarted
    judged.at(NOW_MS + MINUTE_MS + ALONE_MS)
    found = judged.found()[Kind.TIMED_OUT]
    assert (found.life.count, found.life.last_seen_ms, found.subject.transactional_id) == (
        2,
        NOW_MS + MINUTE_MS,
        b"pay",
    )
    quiet_ms = NOW_MS + MINUTE_MS + QUIET_MS
    judged.at(quiet_ms - 1)
    assert judged.found()[Kind.TIMED_OUT].is_open
    judged.at(quiet_ms + 1_000)
    assert judged.found()[Kind.TIMED_OUT].life.resolved_at_ms == quiet_ms + 1_000


def test_the_history_of_a_first_read_raises_no_alarm(cluster: Cluster, reader: Engine) -> None:
    cluster.start({0: 24})
    judged = Judged(cluster, reader)
    judged.timeouts(NOW_MS, *(f"svc-{n}" for n in range(8)), counts=False)
    judged.at(NOW_MS + ALONE_MS)
    assert judged.found() == {}
    judged.timeouts(NOW_MS, "svc-1")
    judged.at(NOW_MS + ALONE_MS)
    judged.at(NOW_MS + 2 * ALONE_MS)
    assert judged.found().keys() == {Kind.TIMED_OUT}


def test_the_first_timeouts_of_an_outage_get_no_findings_of_their_own(judged: Judged) -> None:
    for n in range(6):
        judged.timeouts(NOW_MS + n * 1_000, f"svc-{n}")
        judged.judge.round(NOW_MS + n * 1_000)
    judged.at(NOW_MS + ALONE_MS + 60_000)
    assert judged.found().keys() == {Kind.CORRELATED_TIMEOUTS}


def test_an_outage_names_the_partitions_of_its_timeouts(judged: Judged) -> None:
    judged.timeouts(NOW_MS, *(f"svc-{n}" for n in range(8)))
    judged.judge.round(NOW_MS)
    assert judged.found().keys() == {Kind.CORRELATED_TIMEOUTS}
    found = judged.found()[Kind.CORRELATED_TIMEOUTS]
    assert found.life.count == 8
    assert found.observation.evidence[2].text == "partitions that most of these ids wrote to: orders-0 and orders-3"


RESTART_MS = 20_000


@pytest.mark.parametrize("goes_on", [True, False])
def test_new_ids_count_as_churn_unless_earlier_ids_are_still_used(judged: Judged, goes_on: bool) -> None:
    names = [f"etl-{n:04x}ab".encode() for n in range(6)]
    for n, name in enumerate(names):
        now_ms, at = NOW_MS + n * RESTART_MS, judged.next_offset
        entries = [entry(at, states.EMPTY, name, at_ms=now_ms, pid=n)]
        for one in range(n + 1) if goes_on else [n]:
            entries += committed(at + len(entries), now_ms + 5_000, names[one], pid=one)
        judged.log(entries, now_ms + 5_000)
        judged.judge.round(now_ms + 5_000)
    judged.at(NOW_MS + 5 * RESTART_MS + UNUSED_MS)
    assert judged.found() == {}, "the new ids may still be used, so it is too early for a finding"
    judged.at(NOW_MS + 5 * RESTART_MS + 5_000 + UNUSED_MS + SKEW_MS)
    assert {kind: finding.life.count for kind, finding in judged.found().items()} == (
        {} if goes_on else {Kind.CHURN: 6}
    )


def test_the_last_use_of_an_id_is_its_last_transaction(cluster: Cluster, reader: Engine) -> None:
    cluster.start({0: 0})
    judged = Judged(cluster, reader)
    start_ms = NOW_MS - 1_000
    log = [
        entry(0, states.EMPTY, b"idle", at_ms=NOW_MS),
        *committed(1, NOW_MS, b"done"),
        entry(4, states.EXPIRED, b"done", at_ms=NOW_MS + 50_000),
        entry(5, states.ONGOING, b"open", start_ms=start_ms, at_ms=start_ms),
        *committed(6, NOW_MS, b"broken"),
        entry(9, states.UNKNOWN, b"broken", at_ms=NOW_MS + 1),
    ]
    judged.log(log, NOW_MS)
    with reader.connect() as connection:
        uses = judge_inputs.last_uses(connection, cluster.id, [b"idle", b"done", b"open", b"broken", b"never seen"])
    assert uses == {b"done": NOW_MS, b"open": IN_USE, b"broken": IN_USE}


@pytest.mark.parametrize(("timeout_ms", "kinds_found"), [(60_000, {Kind.FENCING_CONFLICT}), (30_000, set())])
def test_the_cause_of_an_abort_may_be_known_only_later(judged: Judged, timeout_ms: int, kinds_found: set[str]) -> None:
    """Only the record after a TV2 client's abort shows whether a fence or an administrator caused the abort."""
    for turn in range(3):
        at, now_ms, epoch = judged.next_offset, NOW_MS + turn * 20_000, 2 * turn
        start_ms = now_ms - 500
        path = [
            entry(at, states.ONGOING, version=2, epoch=epoch, start_ms=start_ms, at_ms=start_ms),
            entry(at + 1, states.PREPARE_ABORT, version=2, epoch=epoch + 1, start_ms=start_ms, at_ms=now_ms),
            entry(at + 2, states.COMPLETE_ABORT, version=2, epoch=epoch + 1, start_ms=start_ms, at_ms=now_ms + 1),
        ]
        judged.log(path, now_ms)
        judged.judge.round(now_ms)
        assert judged.found() == {}
        empty = entry(at + 3, states.EMPTY, version=2, epoch=epoch + 2, start_ms=start_ms, at_ms=now_ms + 500)
        judged.log([empty._replace(record=empty.record._replace(timeout_ms=timeout_ms))], now_ms + 500)
        judged.judge.round(now_ms + 1_500)
    judged.at(now_ms + 1_500 + ALONE_MS + SETTLES_WITHIN_MS)
    assert judged.found().keys() == kinds_found


@only_on("sqlite")
def test_nothing_is_written_while_nothing_changes(judged: Judged) -> None:
    judged.log([open_one(0, NOW_MS - 90_000)], NOW_MS)
    judged.judge.round(NOW_MS)
    with judged.reader.connect() as connection:
        before = connection.exec_driver_sql("PRAGMA data_version").scalar()
        for tick in range(1, 40):
            assert judged.judge.round(NOW_MS + tick * 250) == 0
        connection.rollback()
        assert connection.exec_driver_sql("PRAGMA data_version").scalar() == before


def test_another_holder_of_the_lease_stops_the_judge(judged: Judged) -> None:
    judged.log([open_one(0, NOW_MS - 90_000)], NOW_MS)
    assert lease.acquire(judged.cluster.engine, judged.cluster.id, "driver", NOW_MS) is not None
    with pytest.raises(LeaseLost):
        judged.judge.round(NOW_MS)
    assert judged.found() == {}


def test_events_of_findings_are_numbered_and_bounded(judged: Judged) -> None:
    judged.log([open_one(0, NOW_MS - 90_000)], NOW_MS)
    judged.judge.round(NOW_MS)
    with judged.reader.connect() as connection:
        (reported,) = events_after(connection, 0, 10)
        assert (reported.event, reported.cluster, reported.finding.kind) == ("opened", "cluster-0", Kind.OVERDUE)
        assert events_after(connection, reported.sequence, 10) == []
    crowd = [
        {"cluster_id": judged.cluster.id, "finding_id": "x", "event": "opened", "at_ms": 0, "is_confirmed": True}
        for _ in range(EVENTS_KEPT)
    ]
    with judged.cluster.engine.begin() as connection:
        connection.execute(schema.finding_events.insert(), crowd)
    judged.at(NOW_MS + 90_000)  # the finding is critical by now
    with judged.reader.connect() as connection:
        oldest, newest = known_sequences(connection)
        assert (newest, newest - oldest + 1) == (EVENTS_KEPT + 2, EVENTS_KEPT)


def test_undecodable_records_are_reported_until_the_id_is_known_again(judged: Judged) -> None:
    judged.log([entry(0, states.UNKNOWN, at_ms=NOW_MS)], NOW_MS)
    judged.judge.round(NOW_MS)
    assert "pay" in judged.found()[Kind.UNDECODABLE].summary
    judged.log([entry(1, states.EMPTY, at_ms=NOW_MS)], NOW_MS + 1_000)
    judged.judge.round(NOW_MS + 1_000)
    assert judged.found()[Kind.UNDECODABLE].life.resolution == Resolution.HEALED


def test_a_failing_source_is_a_coverage_gap_until_it_recovers(judged: Judged) -> None:
    judged.log((), NOW_MS)
    judged.cluster.writer.report_trouble(denied("__transaction_state"))
    judged.judge.round(NOW_MS)
    judged.judge.round(NOW_MS + 30_000)
    assert "grant READ" in judged.found()[Kind.COVERAGE_GAP].summary
    judged.at(NOW_MS + 40_000)
    assert judged.found()[Kind.COVERAGE_GAP].life.resolution == Resolution.HEALED


def test_partitions_that_are_not_sampled_are_a_coverage_gap(judged: Judged) -> None:
    partitions = PartitionWriter(judged.cluster.engine, judged.cluster.lease)
    partitions.apply(PartitionsBatch(NOW_MS), NOW_MS)
    why = PartitionsUnresponsive(1, 1, ((denied("vault", DESCRIBE), 1),))
    partitions.apply(PartitionsBatch(NOW_MS + 29_000, trouble=why), NOW_MS + 29_000)
    judged.at(NOW_MS + 29_000)
    assert Kind.COVERAGE_GAP not in judged.found()
    judged.at(NOW_MS + 30_000)
    assert "grant DESCRIBE" in judged.found()[Kind.COVERAGE_GAP].summary
    partitions.apply(PartitionsBatch(NOW_MS + 31_000), NOW_MS + 31_000)
    judged.at(NOW_MS + 31_000)
    assert judged.found()[Kind.COVERAGE_GAP].life.resolution == Resolution.HEALED


def test_ids_that_expire_soon_and_epochs_that_run_out_have_findings(judged: Judged) -> None:
    configs = {"transactional.id.expiration.ms": {"value": "3600000", "source": "broker"}}
    clusters.describe(judged.cluster.engine, judged.cluster.id, {"configs": configs}, NOW_MS)
    idle = entry(0, states.COMPLETE_COMMIT, b"idle", at_ms=NOW_MS - 3_500_000)
    worn = entry(1, states.EMPTY, b"worn", epoch=31_000, at_ms=NOW_MS)
    old = worn._replace(record=worn.record._replace(client_transaction_version=0))
    tv2 = entry(2, states.EMPTY, b"routine", epoch=31_000, at_ms=NOW_MS)
    judged.log([idle, old, tv2], NOW_MS)
    judged.judge.round(NOW_MS)
    found = judged.found()
    assert found[Kind.EXPIRING].subject.transactional_id == b"idle"
    assert found[Kind.EXPIRING].observation.confidence == Confidence.CERTAIN
    assert found[Kind.EPOCH_EXHAUSTION].subject.transactional_id == b"worn"
    judged.log([entry(3, states.EXPIRED, b"idle", at_ms=NOW_MS + 99_000)], NOW_MS + 100_000)
    judged.judge.round(NOW_MS + 100_000)
    assert not judged.found()[Kind.EXPIRING].is_open
    judged.at(NOW_MS + 100_000 + ALONE_MS)
    found = judged.found()
    assert found[Kind.EXPIRED].subject.transactional_id == b"idle"


def test_every_field_of_a_finding_comes_back_from_the_store(judged: Judged) -> None:
    judged.log([open_one(0, NOW_MS - 90_000)], NOW_MS)
    judged.judge.round(NOW_MS)
    with judged.reader.connect() as connection:
        row = connection.execute(select(schema.findings)).mappings().one()
        (found,) = load(connection, judged.cluster.id, NOW_MS).values()
    assert row["evidence"] == json.loads(json.dumps(found.observation.evidence))
    assert found.observation.evidence[0].source == LogPlace("__transaction_state", 0, 0)
    assert (row["transactional_id"], row["group"], row["count"]) == (b"pay", None, 1)


CANARY = "txnscope-canary-c0ffee12-7-2"


def test_transactions_of_the_canary_are_never_a_finding(judged: Judged) -> None:
    """If a coordinator fails, transactions of the canary fail as well. These transactions must not count in a burst of
    timeouts of applications either."""
    judged.timeouts(NOW_MS, "a", "b", "c", CANARY, f"{CANARY}0")
    judged.log([entry(judged.next_offset, states.ONGOING, CANARY.encode(), start_ms=NOW_MS - 90_000)], NOW_MS)
    judged.judge.round(NOW_MS)
    judged.at(NOW_MS + ALONE_MS)
    with judged.reader.connect() as connection:
        found = load(connection, judged.cluster.id, NOW_MS + ALONE_MS)
    assert {kind for kind, _ in found} == {Kind.TIMED_OUT}
    assert {subject.transactional_id for _, subject in found} == {b"a", b"b", b"c"}


def test_other_transactions_of_the_same_form_are_findings(judged: Judged) -> None:
    judged.timeouts(NOW_MS, *(f"canary-{n}" for n in range(5)))
    judged.at(NOW_MS + ALONE_MS)
    assert Kind.CORRELATED_TIMEOUTS in judged.found(NOW_MS + ALONE_MS)

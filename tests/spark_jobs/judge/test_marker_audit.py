"""Tests of the audit of markers over a real store. The transaction log and the partitions are read independently. The
audit compares the markers of a transaction after the log and the partitions were read past its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from sqlalchemy import Engine, func, select

from service.domain.findings.finding import Finding, Observation, RoundResult, Subject
from service.domain.findings.kinds import Kind, Severity, Status
from service.domain.findings.lifecycle import reconcile
from service.domain.findings.rules import Rules
from service.domain.partitions.facts import LogPlace
from service.domain.partitions.ledger import LedgerBatch, Marker, TopicRange, Unended, Volume
from service.domain.partitions.marker_audit import Result
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Decided, Gap, Participants, RangeRead
from service.store import schema
from service.store.schema.history import AUDITED
from service.store.writers.findings import FindingWriter, load
from service.store.writers.marker_audit import MarkerAuditWriter, forget_untailed
from service.store.writers.partitions import LedgerWriter
from service.store.writers.transaction_log import TransactionLogWriter
from spark_jobs.jobs.ledger import end_tailing
from spark_jobs.judge.judge import Judge
from spark_jobs.judge.marker_audit import WAITS_MS, MarkerAuditor, daily_line
from spark_jobs.source.log_identity import LogPosition
from spark_jobs.source.planner import end_of
from tests.helpers.clocks import no_work
from tests.helpers.findings import finding_facts
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, batch, entry
from tests.service.store.logs import read as span
from tests.service.store.looks import Watched, look

WHOLE, TORN, UNSEEN = Result.WHOLE, Result.TORN, Result.UNSEEN
PLACES = (Participants("a", (0,)), Participants("b", (0,)))


class Audited:
    """A cluster whose transaction log and two tailed partitions are read. Its clock advances with each step."""

    def __init__(self, cluster: Cluster, reader: Engine) -> None:
        self.cluster, self.reader, self.now_ms = cluster, reader, NOW_MS
        cluster.start({0: 0})
        self.log = TransactionLogWriter(cluster.engine, cluster.lease, audited=lambda topic: topic in ("a", "b"))
        self.ledger = LedgerWriter(cluster.engine, cluster.lease)
        self.log_offset, self.offsets, self.generations = 0, {"a": 0, "b": 0}, {"a": 0, "b": 0}
        self.auditor = self.new_auditor()

    def new_auditor(self) -> MarkerAuditor:
        return MarkerAuditor(self.reader, MarkerAuditWriter(self.cluster.engine, self.cluster.lease), self.cluster.id)

    def tick(self) -> int:
        self.now_ms += 100
        return self.now_ms

    def beat(self, *, rounds: int = 4, without: Sequence[str] = ()) -> Counter[Result]:
        """Runs `rounds` rounds, and counts the results. In each round, the log and the partitions are read to their
        ends, and the audit runs once. The topics in `without` do not exist, and are not read."""
        results: Counter[Result] = Counter()
        for _ in range(rounds):
            self.read_log()
            for topic in ("a", "b"):
                if topic not in without:
                    self.read(topic)
            results += self.auditor.audit(self.tick())
        return results

    def read_log(self, *path: int, epoch: int = 0, places: Sequence[Participants] = PLACES, pid: int = 7) -> None:
        """Stores a read of the transaction log, in which the id "pay" has a record for each state in `path`. The
        PrepareX among them are also stored as decisions."""
        lo, asked_ms = self.log_offset, self.tick()
        entries = [
            entry(lo + n, state, epoch=epoch, pid=pid, start_ms=NOW_MS, at_ms=self.now_ms)
            for n, state in enumerate(path)
        ]
        decided = tuple(
            Decided(0, lo + n, b"pay", state, pid, epoch, NOW_MS, self.now_ms, tuple(places))
            for n, state in enumerate(path)
            if state in (states.PREPARE_COMMIT, states.PREPARE_ABORT)
        )
        self.log_offset += len(path)
        read_ = batch(entries, span(lo, self.log_offset, asked_at_ms=asked_ms))
        self.log.apply(read_._replace(decided=decided), self.tick())

    def read(self, topic: str, *found: tuple[str, int], pid: int = 7, again: bool = False) -> None:
        """Stores a read of a tailed partition. Each (kind, epoch) is data or a marker at the next offset. If `again` is
        set, the topic was created again."""
        self.generations[topic] += again
        generation = self.generations[topic]
        lo, asked_ms = (0 if again else self.offsets[topic]), self.tick()
        markers, first = [], None
        for n, (kind, epoch) in enumerate(found):
            if kind == "data":
                first = lo + n if first is None else first
            else:
                ends = -1 if first is None else first
                markers.append(Marker(topic, 0, generation, lo + n, pid, epoch, 0, kind == "commit", self.now_ms, ends))
                first = None
        hi = self.offsets[topic] = lo + len(found)
        gap = Gap(0, 9, "recreated") if again else None
        read_: RangeRead = span(lo, hi, asked_at_ms=asked_ms)
        if generation:
            read_ = read_._replace(generation=generation, topic_id=f"T{generation}", gap=gap)
        volumes = (Volume(topic, 0, NOW_MS // 60_000 * 60_000, 1, 1, 1, 0, 0),) if found else ()
        unended = () if first is None else (Unended(topic, 0, pid, first),)
        ranges = (TopicRange(topic, read_),)
        self.ledger.apply(LedgerBatch(ranges, volumes, tuple(markers), None, unended), self.tick())

    def delete(self, topic: str) -> None:
        """Notes in the store that the topic was deleted."""
        gone = end_of(0, LogPosition("T", self.generations[topic], 0, -1, 0), "", self.tick(), None)
        self.ledger.apply(LedgerBatch((TopicRange(topic, gone),)), self.tick())

    def counted(self) -> dict[str, int]:
        c = schema.counters.c
        with self.reader.connect() as connection:
            rows = connection.execute(
                select(c.label, c.value).where(c.cluster_id == self.cluster.id, c.name == AUDITED)
            )
            return {row[0]: row[1] for row in rows}

    def waiting(self) -> int:
        tables = (schema.waiting_decisions, schema.waiting_markers, schema.unended_records, schema.ended_logs)
        with self.reader.connect() as connection:
            return sum(connection.scalar(select(func.count()).select_from(table)) or 0 for table in tables)

    def judged(self) -> list[Finding]:
        writer = FindingWriter(self.cluster.engine, self.cluster.lease)
        Judge(self.reader, writer, self.cluster.id, Rules(), processor_s=no_work).round(self.tick())
        with self.reader.connect() as connection:
            found = load(connection, self.cluster.id, self.now_ms)
        return [finding for (kind, _), finding in found.items() if kind == Kind.TORN]


@pytest.fixture
def audited(cluster: Cluster, reader: Engine) -> Audited:
    """Returns a cluster whose log and partitions were read to their ends. From here on, markers are compared."""
    one = Audited(cluster, reader)
    assert one.beat() == Counter()
    return one


def test_the_audit_begins_even_if_the_log_is_always_read_last(cluster: Cluster, reader: Engine) -> None:
    one = Audited(cluster, reader)
    for _ in range(2):
        one.read("a")
        one.read_log()
        one.auditor.audit(one.tick())
    with reader.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(schema.audited_partitions)) == 1


COMMITTED = (states.ONGOING, states.PREPARE_COMMIT, states.COMPLETE_COMMIT)


def test_a_transaction_whose_markers_are_as_decided_is_whole(audited: Audited) -> None:
    audited.read_log(*COMMITTED)
    audited.read("a", ("data", 0), ("commit", 0))
    audited.read("b", ("data", 0), ("commit", 0))
    assert audited.beat() == {WHOLE: 1}
    assert (audited.counted(), audited.waiting()) == ({"whole": 1}, 0)
    assert audited.judged() == []


@pytest.mark.parametrize("order", ["log first", "partitions first", "in between"])
@pytest.mark.parametrize("bump", [0, 1])
def test_a_manual_abort_tears_a_transaction_in_any_order_of_reading(audited: Audited, order: str, bump: int) -> None:
    """The audit restarts after the third of the five reads."""
    steps = {
        "log": lambda: audited.read_log(*COMMITTED, epoch=bump),
        "a1": lambda: audited.read("a", ("data", 0), ("data", 0)),
        "a2": lambda: audited.read("a", ("data", 0), ("abort", 0), ("data", 0)),
        "a3": lambda: audited.read("a", ("commit", bump)),
        "b": lambda: audited.read("b", ("data", 0), ("commit", bump)),
    }
    orders = {
        "log first": ("log", "b", "a1", "a2", "a3"),
        "partitions first": ("a1", "a2", "a3", "b", "log"),
        "in between": ("a1", "a2", "b", "log", "a3"),
    }
    for n, step in enumerate(orders[order]):
        steps[step]()
        assert audited.auditor.audit(audited.tick())[TORN] == 0
        if n == 2:
            audited.auditor = audited.new_auditor()
    assert audited.beat(rounds=6) == {TORN: 1}
    assert (audited.counted(), audited.waiting()) == ({"torn": 1}, 0)
    (finding,) = audited.judged()
    assert (finding.severity, finding.status, finding.life.count) == (Severity.CRITICAL, Status.CONFIRMED, 1)
    assert finding.subject == Subject("a", 0, b"pay", 7, bump, 3)
    assert finding.summary == "a transaction of pay was committed, and its part on a-0 is aborted; committed on b-0"
    assert [one.source for one in finding.observation.evidence] == [
        LogPlace("__transaction_state", 0, 1),
        LogPlace("a", 0, 3),
        LogPlace("b", 0, 1),
    ]
    assert [finding.id for finding in audited.judged()] == [finding.id], (
        "another round of the judge finds the same finding, and not a second one"
    )
    with audited.reader.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(schema.torn_transactions)) == 0


def test_no_result_is_given_before_log_and_partitions_are_read_past_it(audited: Audited) -> None:
    audited.read("a", ("data", 0), ("abort", 0), ("data", 0), ("commit", 0))
    audited.read("b", ("data", 0), ("commit", 0))
    for _ in range(4):
        audited.read("a")
        audited.read("b")
        assert audited.auditor.audit(audited.tick()) == Counter()
    audited.read_log(states.ONGOING, states.PREPARE_COMMIT)
    assert audited.beat() == Counter(), "the markers may still be written"
    audited.read_log(states.COMPLETE_COMMIT)
    assert audited.beat() == {TORN: 1}


def test_a_manual_marker_for_a_hanging_transaction_tears_nothing(audited: Audited) -> None:
    left = Observation(
        Kind.HANGING, Severity.CRITICAL, Subject("a", 0, b"pay", 7, 0, 0), finding_facts(Kind.HANGING), ()
    )
    changes = reconcile({}, RoundResult((left,), frozenset()), NOW_MS, "kafka")
    FindingWriter(audited.cluster.engine, audited.cluster.lease).save(changes, NOW_MS)
    audited.read_log(*COMMITTED)
    audited.read("a", ("data", 0), ("abort", 0), ("data", 0), ("commit", 0))
    audited.read("b", ("data", 0), ("commit", 0))
    assert audited.beat() == {UNSEEN: 1}


@pytest.mark.parametrize("what", ["topic created again", "hole in the transaction log"])
def test_a_gap_in_log_or_partition_leaves_pending_transactions_unseen(audited: Audited, what: str) -> None:
    audited.read_log(*COMMITTED)
    audited.read("a", ("data", 0), ("abort", 0), ("data", 0))
    if what == "topic created again":
        audited.read("a", ("commit", 0), again=True)
    else:
        lo = audited.log_offset
        audited.log_offset += 5
        hole = span(lo, lo + 5, asked_at_ms=audited.tick())._replace(missing=5, hole_end=lo + 5)
        audited.log.apply(batch([], hole), audited.tick())
        audited.read("a", ("commit", 0))
    audited.read("b", ("data", 0), ("commit", 0))
    assert audited.beat() == {UNSEEN: 1}
    assert audited.waiting() == 0


@pytest.mark.parametrize("again", [False, True])
def test_a_topic_deleted_inside_a_committed_transaction_tears_it(audited: Audited, again: bool) -> None:
    """The audit restarts after the deletion. If `again` is set, the topic is created again, and gets the marker."""
    audited.read_log(states.ONGOING)
    audited.read("a", ("data", 0))
    audited.read("b", ("data", 0), ("data", 0))
    audited.read("b", again=True) if again else audited.delete("b")
    assert audited.auditor.audit(audited.tick()) == Counter()
    audited.auditor = audited.new_auditor()
    audited.read_log()
    audited.read_log(states.PREPARE_COMMIT, states.COMPLETE_COMMIT)
    audited.read("a", ("commit", 0))
    if again:
        audited.read("b", ("commit", 0))
    assert audited.beat(without=() if again else ("b",)) == {TORN: 1}
    assert (audited.counted(), audited.waiting()) == ({"torn": 1}, 0)
    (finding,) = audited.judged()
    assert finding.subject == Subject("b", 0, b"pay", 7, 0, 0)
    assert finding.summary == (
        "a transaction of pay was committed, and its records on b-0 are gone: the topic was deleted during the"
        " transaction; committed on a-0"
    )


def test_a_topic_deleted_after_its_marker_leaves_the_transaction_whole(audited: Audited) -> None:
    audited.read_log(*COMMITTED)
    audited.read("a", ("data", 0), ("commit", 0))
    audited.read("b", ("data", 0), ("commit", 0))
    audited.delete("b")
    assert audited.beat(without=("b",)) == {WHOLE: 1}
    assert audited.waiting() == 0


def test_a_topic_deleted_before_its_marker_is_read_tears_nothing(audited: Audited) -> None:
    audited.read_log(states.ONGOING)
    audited.read("a", ("data", 0))
    audited.read("b", ("data", 0))
    audited.delete("b")
    audited.read_log(states.PREPARE_COMMIT, states.COMPLETE_COMMIT)  # the decision may be older than the deletion
    audited.read("a", ("commit", 0))
    assert audited.beat(without=("b",)) == {UNSEEN: 1}
    assert (audited.judged(), audited.waiting()) == ([], 0)


def test_an_earlier_transaction_without_marker_tears_no_later_one(audited: Audited) -> None:
    """The marker of the first transaction was skipped on b (KAFKA-20734). Another kind of finding reports this fault.
    Then b is deleted. Records of the first transaction must not make the second one torn."""
    audited.read_log(*COMMITTED)
    audited.read("a", ("data", 0), ("commit", 0))
    audited.read("b", ("data", 0))
    assert audited.beat() == {UNSEEN: 1}
    audited.read_log(states.ONGOING)
    audited.read("a", ("data", 0))
    audited.delete("b")
    audited.read_log()
    audited.read_log(states.PREPARE_COMMIT, states.COMPLETE_COMMIT)
    audited.read("a", ("commit", 0))
    assert audited.beat(without=("b",)) == {UNSEEN: 1}


def test_a_topic_that_comes_back_with_its_id_was_not_deleted(audited: Audited) -> None:
    """A broker that has just started may not know a topic yet. The topic seems to be deleted, and then comes back with
    the same topic id."""
    audited.read_log(states.ONGOING)
    audited.read("a", ("data", 0))
    audited.read("b", ("data", 0))
    audited.delete("b")
    audited.read("b")
    audited.read_log()
    audited.read_log(states.PREPARE_COMMIT, states.COMPLETE_COMMIT)
    audited.read("a", ("commit", 0))
    audited.read("b", ("commit", 0))
    assert audited.beat() == {UNSEEN: 1}


def test_a_topic_whose_leader_still_answers_was_not_deleted(audited: Audited) -> None:
    audited.read_log(states.ONGOING)
    audited.read("a", ("data", 0))
    audited.read("b", ("data", 0))
    audited.delete("b")
    Watched(audited.cluster).see(look(audited.tick(), 1, 1, topic="b"))
    audited.read_log()
    audited.read_log(states.PREPARE_COMMIT, states.COMPLETE_COMMIT)
    audited.read("a", ("commit", 0))
    assert audited.beat(without=("b",)) == {UNSEEN: 1}


@pytest.mark.parametrize("how", ["hole", "not tailed any more", "end of tailing"])
def test_transactions_that_can_no_longer_be_followed_are_forgotten(audited: Audited, how: str) -> None:
    audited.read_log(states.ONGOING)
    audited.read("b", ("data", 0))
    audited.delete("b")
    if how == "hole":
        lo = audited.log_offset
        hole = span(lo, lo + 5, asked_at_ms=audited.tick())._replace(missing=5, hole_end=lo + 5)
        audited.log.apply(batch([], hole), audited.tick())
        audited.auditor.audit(audited.tick())
    elif how == "end of tailing":
        end_tailing(audited.cluster.engine, audited.cluster.lease)
    else:
        with audited.cluster.engine.begin() as connection:
            forget_untailed(connection, audited.cluster.id, lambda topic: topic == "a")
    assert audited.waiting() == 0


def test_transactions_begun_before_the_audit_are_not_compared(cluster: Cluster, reader: Engine) -> None:
    one = Audited(cluster, reader)
    one.read("a", ("data", 0), ("abort", 0), ("data", 0))
    one.read("b", ("data", 0))
    one.beat()
    one.read_log(*COMMITTED)
    one.read("a", ("commit", 0))
    one.read("b", ("commit", 0))
    assert TORN not in one.beat()


def test_untailed_partitions_count_as_unseen_but_not_those_of_kafka(audited: Audited) -> None:
    offsets = (Participants("__consumer_offsets", (3,)), Participants("a", (0,)))
    audited.read_log(*COMMITTED, places=offsets)
    audited.read("a", ("data", 0), ("commit", 0))
    assert audited.beat() == {WHOLE: 1}
    audited.read_log(*COMMITTED, places=(Participants("a", (0,)), Participants("other", (1,))))
    audited.read("a", ("data", 0), ("commit", 0))
    assert audited.beat() == {UNSEEN: 1}
    audited.read_log(*COMMITTED, places=(Participants("other", (1,)),))
    assert (audited.beat(), audited.waiting()) == ({}, 0)


def test_a_transaction_that_cannot_be_compared_is_given_up_after_a_while(audited: Audited) -> None:
    audited.read_log(*COMMITTED)
    audited.read_log()
    assert audited.auditor.audit(audited.tick()) == Counter()
    audited.now_ms += WAITS_MS + 1
    assert audited.auditor.audit(audited.tick()) == {UNSEEN: 1}
    assert audited.waiting() == 0


def test_the_end_of_tailing_forgets_pending_transactions(audited: Audited) -> None:
    audited.read_log(*COMMITTED)
    audited.read("a", ("data", 0), ("commit", 0), ("data", 0))
    assert audited.waiting() > 0
    end_tailing(audited.cluster.engine, audited.cluster.lease)
    assert audited.waiting() == 0


def test_a_daily_line_contains_the_number_of_ended_transactions() -> None:
    line = (
        "1,003 transactions ended within a day on partitions of which every batch is read: none torn,"
        " 1,000 with all markers as decided, 3 that could not be compared as a whole"
    )
    assert daily_line(Counter({WHOLE: 1_000, UNSEEN: 3})) == line
    assert "2 torn" in daily_line(Counter({WHOLE: 1, TORN: 2}))

"""Tests of judging without the transaction log. To report a hang, the judge needs a coordinator to answer twice in
succession that no transaction will end the entry. The finding is at most `likely`. An id that Kafka hides proves
nothing."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from service.domain.findings.confirmation import ADD_IN_FLIGHT_MS, CLIENT_WAITS_MS
from service.domain.findings.kinds import Kind
from service.domain.partitions.open_entries import DescribedOwner
from service.domain.reasons.reason import text_of
from service.domain.reasons.unread import NoTransactionLog, TransactionsSeen
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import LogBatch
from service.domain.transaction_log.states import TOPIC
from service.domain.worlds.markers import Marker
from service.store.queries import partitions
from service.store.writers.findings import load
from service.views.partitions import judged as judged_partitions
from spark_jobs.judge.hanging_case import ASK_AGAIN_MS
from spark_jobs.judge.partition_prober import Answers, CoordinatorAnswers
from tests.helpers.reasons import denied
from tests.service.store.conftest import Cluster, only_on
from tests.service.store.logs import NOW_MS, entry
from tests.service.store.looks import described, look, silent
from tests.service.store.looks import entry as open_entry
from tests.spark_jobs.judge.test_open_entries import KEY, PLACE, Lab

pytestmark = only_on("sqlite")  # the queries have their own tests on both databases

DENIED = denied(TOPIC)
DONE = DescribedOwner(b"pay", 1, states.COMPLETE_ABORT, 7, 0, ())
ONGOING = DONE._replace(state=states.ONGOING, partitions=(PLACE,))
ABSENT = NoTransactionLog(TransactionsSeen.LISTED)
S = 1_000


class Blind(Lab):
    """A lab without access to the transaction log. The store has no record of the log until a test calls `log`."""

    def denied(self, now_ms: int = NOW_MS) -> None:
        self.cluster.writer.report_trouble(DENIED)

    def absent(self, now_ms: int) -> None:
        """Reports that the brokers list transactional ids, but no transaction log."""
        self.cluster.writer.apply(LogBatch((), (), (), ABSENT), now_ms)

    def at(self, now_ms: int) -> str | None:
        """Judges a round without the log. Returns the status of the hanging finding, or None if there is no such
        finding."""
        self.judge.round(now_ms)
        found = self.found(now_ms)
        return None if found is None else found.status

    def coordinator_answers(self, at_ms: int, reported: DescribedOwner | None) -> None:
        """Gives the judge a coordinator's answer, requested and answered at `at_ms`."""
        self.prober.ready.append(Answers(coordinator_answers=CoordinatorAnswers(at_ms, at_ms, {7: reported})))

    def answered_and_seen(self, at_ms: int, reported: DescribedOwner | None) -> None:
        self.coordinator_answers(at_ms, reported)
        self.seen(at_ms)

    def confirm_as_likely(self, now_ms: int = NOW_MS) -> None:
        """Confirms the entry as likely to hang, 2.1 s after `now_ms`."""
        self.denied(now_ms)
        self.opened(now_ms)
        assert self.at(now_ms + S) is None
        self.coordinator_answers(now_ms + S + 1, DONE)
        assert self.at(now_ms + S + 100) is None
        self.answered_and_seen(now_ms + 2 * S, DONE)
        assert self.at(now_ms + 2 * S + 100) == "confirmed"

    def relation(self, now_ms: int) -> tuple[str, str | None]:
        """Returns the relation of the entry as users see it, such as hanging or unknown. Also returns the reason why
        the partition cannot be judged, or None."""
        self.watched.see(look(now_ms), now_ms=now_ms)
        with self.reader.connect() as connection:
            rows = partitions.stalled(connection, self.cluster.id)
            (partition,) = judged_partitions.judge(connection, self.cluster.id, rows)
        (judged_entry,) = partition.entries
        return judged_entry.relation.kind, text_of(partition.why)


@pytest.fixture
def lab(cluster: Cluster, reader: Engine) -> Blind:
    cluster.start({0: 5})
    return Blind(cluster, reader)


@pytest.fixture
def other(cluster: Cluster, reader: Engine) -> Blind:
    """Returns a lab on a cluster whose brokers have no transaction log."""
    return Blind(cluster, reader)


def test_a_hang_is_likely_if_the_coordinator_has_completed_it(other: Blind) -> None:
    other.absent(NOW_MS)
    other.opened(NOW_MS)
    assert other.at(NOW_MS + S) is None
    other.coordinator_answers(NOW_MS + S + 1, DONE)
    other.at(NOW_MS + S + 100)
    other.answered_and_seen(NOW_MS + 2 * S, DONE)
    assert other.at(NOW_MS + 2 * S + 100) == "confirmed"
    found = other.found(NOW_MS + 3 * S)
    assert found is not None
    assert (found.observation.confidence, found.observation.decision, found.command) == ("likely", "unknown", None)


@pytest.mark.parametrize(
    "reported", [ONGOING._replace(partitions=()), ONGOING._replace(state=states.PREPARE_COMMIT), None]
)
def test_an_open_transaction_may_end_a_partition_it_does_not_list(
    other: Blind, reported: DescribedOwner | None
) -> None:
    """Only coordinators of Apache Kafka are known to list every partition of a transaction, including the partition of
    group offsets."""
    other.absent(NOW_MS)
    other.opened(NOW_MS)
    for after_ms in range(S, 60 * S, S):
        assert other.at(NOW_MS + after_ms) is None
        other.answered_and_seen(NOW_MS + after_ms + 1, reported)
    word, why = other.relation(NOW_MS + 60 * S)
    assert (word, why is not None and str(ABSENT) in why) == ("unknown", True)


def test_two_coordinator_answers_without_the_partition_make_a_likely_hang(lab: Blind) -> None:
    lab.confirm_as_likely()
    found = lab.found(NOW_MS + 3 * S)
    assert found is not None
    assert (found.observation.confidence, found.observation.decision, found.command) == ("likely", "unknown", None)
    assert found.subject.transactional_id == b"pay"
    assert found.observation.owner == "payments"
    texts = [(one.source, one.text) for one in found.observation.evidence]
    assert (
        "DescribeTransactions, broker 1",
        "the second of two answers: pay is CompleteAbort, with no transaction that ends the entry",
    ) in texts
    assert "find out from the application" in found.observation.advice
    assert "orphan" not in repr(found.observation.evidence)
    assert lab.relation(NOW_MS + 4 * S) == ("hanging", None)


def test_an_unconfirmed_entry_is_unknown_and_names_the_permission(lab: Blind) -> None:
    lab.denied()
    lab.opened(NOW_MS)
    lab.at(NOW_MS + S)
    word, why = lab.relation(NOW_MS + 5 * S)
    assert word == "unknown"
    assert why is not None
    assert str(DENIED) in why


def test_nothing_is_confirmed_while_a_broker_is_unresponsive(lab: Blind) -> None:
    """The client may be waiting for the unresponsive broker before it adds the partition."""
    lab.denied()
    lab.opened(NOW_MS)
    lab.watched.see(silent(NOW_MS + 500, "broker 3 does not answer", partition=1, leader=3, leader_epoch=5))
    for after_ms in range(S, CLIENT_WAITS_MS, S):
        assert lab.at(NOW_MS + after_ms) is None
        lab.answered_and_seen(NOW_MS + after_ms + 1, DONE)
    lab.at(NOW_MS + CLIENT_WAITS_MS)
    lab.answered_and_seen(NOW_MS + CLIENT_WAITS_MS + 1, DONE)
    assert lab.at(NOW_MS + CLIENT_WAITS_MS + S) == "confirmed"


def test_an_id_that_kafka_hides_is_never_reported_as_hanging(lab: Blind) -> None:
    """Kafka omits the id from its answer, but the transaction of the id may be healthy."""
    lab.denied()
    lab.opened(NOW_MS)
    for after_ms in range(S, 60 * S, S):
        assert lab.at(NOW_MS + after_ms) is None
        lab.answered_and_seen(NOW_MS + after_ms + 1, None)
    assert lab.relation(NOW_MS + 60 * S)[0] == "unknown"


def test_a_transaction_that_lists_the_partition_will_end(lab: Blind) -> None:
    lab.denied()
    lab.opened(NOW_MS)
    for after_ms in range(S, 60 * S, S):
        assert lab.at(NOW_MS + after_ms) is None
        lab.answered_and_seen(
            NOW_MS + after_ms + 1, ONGOING if after_ms < 30 * S else ONGOING._replace(state=states.PREPARE_COMMIT)
        )


@pytest.mark.parametrize("between", [ONGOING, None])
def test_a_confirmation_needs_two_successive_answers(lab: Blind, between: DescribedOwner | None) -> None:
    """The two answers must be successive. If another result lies between them, AddPartitionsToTxn may have arrived, or
    the coordinator may have moved."""
    lab.denied()
    lab.opened(NOW_MS)
    lab.at(NOW_MS + S)
    for n, reported in enumerate((DONE, between, DONE)):
        lab.answered_and_seen(NOW_MS + (2 + n) * S, reported)
        assert lab.at(NOW_MS + (2 + n) * S + 100) is None


def test_a_coordinator_that_completes_a_transaction_adds_no_partition(lab: Blind) -> None:
    """While a transaction completes, the coordinator refuses AddPartitionsToTxn (CONCURRENT_TRANSACTIONS), and the
    client retries."""
    lab.denied()
    lab.opened(NOW_MS)
    for after_ms in range(S, 20 * S, S):
        assert lab.at(NOW_MS + after_ms) is None
        lab.answered_and_seen(NOW_MS + after_ms + 1, DONE._replace(state=states.PREPARE_COMMIT))
    for after_ms in (20 * S, 26 * S):
        lab.at(NOW_MS + after_ms)
        lab.answered_and_seen(NOW_MS + after_ms + 1, DONE)
    assert lab.at(NOW_MS + 27 * S) == "confirmed"


def test_two_answers_within_a_moment_count_as_one(lab: Blind) -> None:
    lab.denied()
    lab.opened(NOW_MS)
    lab.at(NOW_MS + S)
    lab.coordinator_answers(NOW_MS + S + 1, DONE)
    lab.at(NOW_MS + S + 100)
    lab.answered_and_seen(NOW_MS + S + ADD_IN_FLIGHT_MS, DONE)
    assert lab.at(NOW_MS + 2 * S) is None


def test_a_sample_from_before_the_second_answer_does_not_confirm(lab: Blind) -> None:
    lab.denied()
    lab.opened(NOW_MS)
    lab.at(NOW_MS + S)
    lab.coordinator_answers(NOW_MS + S + 1, DONE)
    lab.at(NOW_MS + S + 100)
    lab.coordinator_answers(NOW_MS + 2 * S, DONE)
    lab.seen(NOW_MS + 2 * S - 1)
    assert lab.at(NOW_MS + 3 * S) == "candidate"


def test_a_partition_that_may_no_longer_be_described_confirms_nothing(lab: Blind) -> None:
    lab.denied()
    lab.opened(NOW_MS)
    lab.at(NOW_MS + S)
    lab.coordinator_answers(NOW_MS + S + 1, DONE)
    lab.at(NOW_MS + S + 100)
    lab.answered_and_seen(NOW_MS + 2 * S, DONE)
    (answers,) = lab.prober.ready[-1:]
    answers.seen[PLACE] = answers.seen[PLACE]._replace(described=False, open=())
    assert lab.at(NOW_MS + 3 * S) == "candidate"


def test_an_answer_from_before_the_entry_was_known_does_not_count(lab: Blind) -> None:
    lab.denied()
    lab.opened(NOW_MS)
    lab.at(NOW_MS + S)
    lab.coordinator_answers(NOW_MS + S, DONE)
    lab.at(NOW_MS + S + 100)
    lab.answered_and_seen(NOW_MS + 2 * S, DONE)
    assert lab.at(NOW_MS + 3 * S) is None


def test_coordinators_are_not_asked_while_the_log_is_being_read(lab: Blind) -> None:
    lab.opened(NOW_MS)
    lab.at(NOW_MS + S)
    assert lab.prober.asked == []


def test_long_transactions_cause_few_requests_and_none_to_partitions(lab: Blind) -> None:
    lab.denied()
    lab.opened(NOW_MS)
    for after_ms in range(0, 20 * ASK_AGAIN_MS, 250):
        asked = len(lab.prober.asked)
        lab.at(NOW_MS + S + after_ms)
        if len(lab.prober.asked) > asked:
            lab.coordinator_answers(NOW_MS + S + after_ms + 1, ONGOING)
    assert 15 <= len(lab.prober.asked) <= 21
    assert not any(questions.entries or questions.log_partitions or questions.facts for questions in lab.prober.asked)


def test_a_new_transaction_of_the_same_producer_adopts_the_records(lab: Blind) -> None:
    lab.confirm_as_likely()
    lab.answered_and_seen(NOW_MS + 9 * S, ONGOING)
    lab.at(NOW_MS + 10 * S)
    found = lab.found(NOW_MS + 10 * S)
    assert found is not None
    assert (found.status, found.life.resolution) == ("resolved", "adopted")
    lab.answered_and_seen(NOW_MS + 16 * S, ONGOING)
    assert lab.at(NOW_MS + 17 * S) == "resolved"


def test_without_the_log_the_writer_of_a_marker_is_not_named(lab: Blind) -> None:
    lab.confirm_as_likely()
    lab.seen(NOW_MS + 4 * S, is_open=False, markers=(Marker(110, 0, NOW_MS + 3 * S, False),))
    lab.at(NOW_MS + 5 * S)
    found = lab.found(NOW_MS + 5 * S)
    assert found is not None
    assert (found.status, found.life.resolution) == ("resolved", "healed")


def test_a_finding_survives_a_restart_even_if_its_id_is_now_hidden(lab: Blind) -> None:
    lab.confirm_as_likely()
    before = lab.found(NOW_MS)
    lab.restart()
    lab.denied(NOW_MS + 10 * S)
    lab.opened(NOW_MS + 10 * S)
    for after_ms in (11 * S, 13 * S, 15 * S):
        lab.answered_and_seen(NOW_MS + after_ms, None)
        assert lab.at(NOW_MS + after_ms + 100) == "confirmed"
    found = lab.found(NOW_MS + 16 * S)
    assert before is not None
    assert found is not None
    assert found.id == before.id
    assert KEY in lab.prober.asked[-1].entries
    lab.seen(NOW_MS + 17 * S, is_open=False, markers=(Marker(110, 0, NOW_MS + 16 * S, False),))
    assert lab.at(NOW_MS + 18 * S) == "resolved"


def test_the_decision_becomes_certain_once_the_log_can_be_read(lab: Blind) -> None:
    """When the permission is granted, all confirmation steps are repeated, and the finding stays the same."""
    lab.confirm_as_likely()
    before = lab.found(NOW_MS)
    now_ms = NOW_MS + 20 * S
    ended_ms = NOW_MS - 60 * S  # the epoch has changed since, and the record at the LSO is younger
    lab.log(now_ms, entry(0, states.COMPLETE_ABORT, start_ms=ended_ms, at_ms=ended_ms, epoch=1))
    lab.watched.see(look(now_ms), described(now_ms, open_entry()), now_ms=now_ms)
    lab.judge.round(now_ms)
    lab.ends(now_ms + 100)
    lab.round(now_ms + 200)
    lab.seen(now_ms + 300)
    found = lab.round(now_ms + S)
    assert before is not None
    assert found is not None
    assert (found.id, found.status, found.observation.confidence) == (before.id, "confirmed", "certain")
    assert found.observation.decision == "none"
    assert found.command is not None


def test_a_readable_log_that_lists_the_partition_ends_the_finding(lab: Blind) -> None:
    lab.confirm_as_likely()
    now_ms = NOW_MS + 20 * S
    lab.log(now_ms, entry(0, states.ONGOING, start_ms=now_ms, at_ms=now_ms))
    lab.opened(now_ms)
    found = lab.round(now_ms + 100)
    assert found is not None
    assert (found.status, found.life.resolution) == ("resolved", "adopted")


def test_the_coverage_gap_names_the_log_and_not_the_stalled_topic(lab: Blind) -> None:
    lab.denied()
    lab.opened(NOW_MS)
    for after_ms in (S, 20 * S, 40 * S):
        lab.opened(NOW_MS + after_ms)
        lab.at(NOW_MS + after_ms)
    with lab.reader.connect() as connection:
        gaps = [s.topic for (kind, s) in load(connection, lab.cluster.id, NOW_MS) if kind == Kind.COVERAGE_GAP]
    assert gaps == [TOPIC]

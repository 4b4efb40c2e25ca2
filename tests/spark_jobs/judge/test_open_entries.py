"""Tests of the three confirmation steps before a hanging entry is reported: which observations count as a step, and
which observations withdraw a verdict."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, select

from service.access.actions import Outcome
from service.domain.findings.confirmation import ADD_IN_FLIGHT_MS, CLIENT_WAITS_MS
from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Kind, Resolution, Status
from service.domain.findings.rules import Rule, Rules
from service.domain.partitions.facts import MarkerType
from service.domain.partitions.open_entries import ADOPTED_AFTER_MS
from service.domain.transaction_log import states
from service.domain.transaction_log.facts import Participants
from service.domain.worlds.facts import Batches, EntryFacts, FirstBatch
from service.domain.worlds.markers import Marker
from service.domain.worlds.transactions import Epochs, LogHistory
from service.kafka.cluster import Leader
from service.kafka.ends import Ends
from service.kafka.leader_check import CheckedPartition
from service.kafka.log_range import BatchesRead
from service.kafka.producers import ActiveProducer
from service.store.audit_events import OUTCOME_WITHIN_MS, Attempt, record_attempt
from service.store.schema import counters
from service.store.schema.history import SUM
from service.store.writers.findings import FindingWriter, load
from spark_jobs.judge.disturbances import disturbances_at_start
from spark_jobs.judge.judge import Judge
from spark_jobs.judge.open_entries import SOON_MS, OpenEntryObserver
from spark_jobs.judge.partition_prober import Answers, EntryKey, Questions
from spark_jobs.judge.resolution import LOG_WAIT_MS, MARKER_WAIT_MS
from spark_jobs.source.reader_settings import WatchedTopics
from tests.helpers.builders.entry_facts import facts_of
from tests.helpers.clocks import no_work
from tests.service.store.conftest import Cluster, only_on
from tests.service.store.logs import NOW_MS, Entry, batch, entry, read
from tests.service.store.looks import Watched, described, look, silent
from tests.service.store.looks import entry as open_entry

pytestmark = only_on("sqlite")  # the queries have their own tests on both databases

KEY = EntryKey("orders", 0, 7, 100)
PLACE = ("orders", 0)
ENDED_MS = NOW_MS - 60_000
DETECTION = "detection_ms_confirmed"
PAYMENTS = (Participants("payments", (0,)),)
FIRST_BATCH = FirstBatch(0, 0, ENDED_MS, 5, is_first_of_epoch=True)
NO_TRANSACTION = EntryFacts(
    LogHistory(0, 10, (), frozenset(), ()),
    (),
    0,
    Batches(100, 105, Epochs(0, 0), FIRST_BATCH, 5, is_whole=True),
    -1,
    leader_epoch=5,
)
"""Facts without an ended transaction under the producer id, from a log that was read completely."""


class Scripted:
    """A prober that returns the answers of the test, whatever it is asked."""

    def __init__(self) -> None:
        self.asked: list[Questions] = []
        self.ready: list[Answers] = []

    def ask(self, questions: Questions) -> bool:
        self.asked.append(questions)
        return True

    def answers(self) -> list[Answers]:
        ready, self.ready = self.ready, []
        return ready


class Lab:
    """A cluster with one partition of the transaction log, and with the partition orders-0. There, producer id 7 has an
    open entry at offset 100. The producer id belongs to no id, or to `pay` once a record of `pay` is in the log."""

    def __init__(self, cluster: Cluster, reader: Engine) -> None:
        self.cluster, self.reader, self.watched = cluster, reader, Watched(cluster)
        self.rules = Rules((Rule(prefix="pay", owner="payments"),))
        self.next_offset, self.leader, self.facts, self.entry = 0, 1, NO_TRANSACTION, open_entry()
        self.restart()

    def restart(self, now_ms: int = NOW_MS, mirrored: tuple[str, ...] = ()) -> None:
        self.prober = Scripted()
        with self.reader.connect() as connection:
            disturbances = disturbances_at_start(connection, self.cluster.id, now_ms)
        watch = WatchedTopics(mirrored=mirrored)
        partitions = OpenEntryObserver(self.cluster.id, self.prober, "broker:9092", disturbances, watch)  # type: ignore[arg-type]
        writer = FindingWriter(self.cluster.engine, self.cluster.lease)
        self.judge = Judge(self.reader, writer, self.cluster.id, self.rules, partitions=partitions, processor_s=no_work)

    def log(self, now_ms: int, *entries: Entry) -> None:
        lo, hi = self.next_offset, self.next_offset + len(entries)
        span = read(lo, hi, end=hi, asked_at_ms=now_ms)._replace(leader=self.leader)
        self.cluster.writer.apply(batch(entries, span), now_ms)
        self.next_offset = hi

    def ended(self, now_ms: int, state: int = states.COMPLETE_ABORT) -> None:
        """Stores the last record of an earlier transaction of `pay`, which ended a minute before NOW_MS."""
        self.log(now_ms, entry(self.next_offset, state, start_ms=ENDED_MS, at_ms=ENDED_MS))

    def opened(self, now_ms: int) -> None:
        self.watched.see(look(now_ms), described(now_ms, self.entry), now_ms=now_ms)

    def round(self, now_ms: int) -> Finding | None:
        self.log(now_ms)
        self.judge.round(now_ms)
        return self.found(now_ms)

    def found(self, now_ms: int) -> Finding | None:
        return self.kinds(now_ms).get(Kind.HANGING)

    def kinds(self, now_ms: int) -> dict[str, Finding]:
        """Returns the findings, keyed by kind. There is at most one of each kind."""
        with self.reader.connect() as connection:
            return {kind: finding for (kind, _), finding in load(connection, self.cluster.id, now_ms).items()}

    def ends(
        self,
        asked_at_ms: int,
        end: int | None = None,
        leader: tuple[int, int] | None = None,
        *,
        is_open: bool = True,
        others: tuple[ActiveProducer, ...] = (),
    ) -> None:
        """Gives the judge two answers that were requested at `asked_at_ms`: the end of the transaction log, and a check
        of the partition. By default, `end` is the offset up to which the log was read. `leader`: the leader and leader
        epoch of the log. `others`: further open entries of the partition."""
        log_ends = {0: self.next_offset if end is None else end}
        leaders = {} if leader is None else {0: leader}
        seen = _seen(asked_at_ms, is_open)
        seen = seen._replace(open=(*seen.open, *others))
        answers = Answers(asked_at_ms, log_ends, leaders, seen={PLACE: seen})
        self._add_facts(answers, asked_at_ms, is_open)
        self.prober.ready.append(answers)

    def seen(
        self,
        asked_at_ms: int,
        *,
        is_open: bool = True,
        markers: tuple[Marker, ...] = (),
        topic_id: str = "T",
        broker_failure_at_ms: int | None = None,
        log_start: int = 10,
    ) -> None:
        answers = Answers(
            seen={PLACE: _seen(asked_at_ms, is_open, topic_id, log_start)}, broker_failure_at_ms=broker_failure_at_ms
        )
        self._add_facts(answers, asked_at_ms, is_open)
        if not is_open:
            answers.ended[KEY] = BatchesRead(markers, (), 111, True, 0)
        self.prober.ready.append(answers)

    def _add_facts(self, answers: Answers, asked_at_ms: int, is_open: bool) -> None:
        """Adds the facts to the answers if the judge has asked for them, and the entry is open."""
        asked = self.prober.asked[-1].facts.get(KEY) if self.prober.asked else None
        if is_open and asked is not None:
            history = self.facts.history if asked.transactional_id else None
            answers.facts[KEY] = asked, self.facts._replace(history=history, read_at_ms=asked_at_ms)

    def two_looks(self, now_ms: int = NOW_MS) -> None:
        """Gives the judge the first two confirmation steps: the open entry, and then the end of the log. A round has
        judged the first step only."""
        self.ended(now_ms)
        self.opened(now_ms)
        self.round(now_ms + 1_000)
        self.ends(now_ms + 1_500)

    def confirmed(self, now_ms: int = NOW_MS) -> Finding:
        """Runs all three confirmation steps, a second apart, and returns the finding."""
        self.two_looks(now_ms)
        self.round(now_ms + 2_000)
        self.seen(now_ms + 2_500)
        found = self.round(now_ms + 3_000)
        assert found is not None
        return found


def _seen(asked_at_ms: int, is_open: bool, topic_id: str = "T", log_start: int = 10) -> CheckedPartition:
    there = (ActiveProducer(7, 0, 1, -1, 3, 100),) if is_open else ()
    ends = Ends(log_start, 100 if is_open else 111, 110 if is_open else 111, 0)
    return CheckedPartition(*PLACE, topic_id, asked_at_ms, Leader(1, 5), ends, True, there)


@pytest.fixture
def lab(cluster: Cluster, reader: Engine) -> Lab:
    cluster.start({0: 0})
    return Lab(cluster, reader)


def test_three_confirmation_steps_make_a_finding_with_the_id(lab: Lab) -> None:
    found = lab.confirmed()
    assert (found.status, found.severity, found.observation.confidence) == ("confirmed", "critical", "likely")
    s = found.subject
    assert (s.topic, s.partition, s.transactional_id, s.producer_id, s.start_offset) == ("orders", 0, b"pay", 7, 100)
    assert found.observation.owner == "payments"
    assert (found.observation.decision, found.observation.possible) == ("none", ("none",))
    assert [proof.kind for proof in found.observation.proofs] == ["completeness"]
    with lab.reader.connect() as connection:
        counted = connection.execute(
            select(counters.c.label, counters.c.value).where(counters.c.name == DETECTION)
        ).all()
    assert dict(tuple(row) for row in counted)[SUM] == 3_000  # the LSO has been at this offset since NOW_MS


def test_a_finding_on_a_topic_that_turns_out_to_be_mirrored_is_withdrawn(lab: Lab) -> None:
    """The producer ids of a mirrored topic belong to another cluster. The topic is not sampled any more, so its entry
    never ends in the store."""
    lab.confirmed()
    lab.restart(NOW_MS + 4_000, mirrored=("ord*",))
    found = lab.round(NOW_MS + 4_500)
    assert found is not None
    assert (found.status, found.life.resolution) == (Status.RESOLVED, Resolution.NOT_HANGING)
    lab.ends(NOW_MS + 5_000)
    found = lab.round(NOW_MS + 5_500)
    assert found is not None
    assert (found.status, found.life.reopened) == (Status.RESOLVED, 0)


def test_an_entry_that_was_seen_before_its_id_was_read_has_the_id(lab: Lab) -> None:
    """On a slow machine, the transaction log may be read later than the partition. Even in this case, the finding gets
    the name of the id."""
    lab.opened(NOW_MS)
    assert lab.round(NOW_MS + 500) is None
    found = lab.confirmed(NOW_MS + 1_000)
    assert (found.status, found.subject.transactional_id) == ("confirmed", b"pay")
    assert found.observation.owner == "payments"


def test_a_sample_of_the_partition_and_the_log_end_make_a_candidate(lab: Lab) -> None:
    lab.ended(NOW_MS)
    lab.opened(NOW_MS)
    assert lab.round(NOW_MS + 1_000) is None
    assert lab.prober.asked[0].log_partitions == {0}
    lab.ends(NOW_MS + 1_500)
    found = lab.round(NOW_MS + 2_000)
    assert found is not None
    assert (found.status, found.life.confirmed_at_ms) == ("candidate", None)


def test_a_log_end_counts_only_with_an_open_entry_in_its_answer(lab: Lab) -> None:
    """The answer with the log end must also have a later check of the partition that shows the entry as open. Otherwise
    the transaction may have ended since the entry was stored, and nothing hangs."""
    lab.ended(NOW_MS)
    lab.opened(NOW_MS)
    lab.round(NOW_MS + 1_000)
    lab.prober.ready.append(Answers(NOW_MS + 1_500, {0: lab.next_offset}))
    lab.seen(NOW_MS + 1_900)
    assert lab.round(NOW_MS + 2_000) is None
    asked = lab.prober.asked[-1]
    assert asked.log_partitions == {0}
    assert KEY in asked.entries, "the entry is checked again, although it was checked a moment ago"
    lab.ends(NOW_MS + 2_500, is_open=False)
    assert lab.round(NOW_MS + 3_000) is None


def test_a_log_end_from_before_the_entry_was_known_is_no_step(lab: Lab) -> None:
    lab.ended(NOW_MS)
    lab.opened(NOW_MS)
    lab.round(NOW_MS + 1_000)
    lab.ends(NOW_MS + 1_000)
    assert lab.round(NOW_MS + 2_000) is None


def test_a_log_that_is_not_read_to_its_end_is_no_step(lab: Lab) -> None:
    """The unread part of the log may contain the transaction that ends the entry."""
    lab.ended(NOW_MS)
    lab.opened(NOW_MS)
    lab.round(NOW_MS + 1_000)
    lab.ends(NOW_MS + 1_500, end=lab.next_offset + 1)
    assert lab.round(NOW_MS + 2_000) is None
    lab.log(NOW_MS + 2_500, entry(lab.next_offset, states.ONGOING, start_ms=NOW_MS - 2_000, at_ms=NOW_MS - 2_000))
    assert lab.round(NOW_MS + 3_000) is None  # the transaction lists orders-0, so its marker will end the entry


def test_a_sample_from_before_the_second_step_does_not_confirm(lab: Lab) -> None:
    lab.two_looks()
    lab.seen(NOW_MS + 1_900)
    found = lab.round(NOW_MS + 2_000)
    assert found is not None
    assert found.status == "candidate"


def test_a_candidate_whose_partition_is_added_after_all_does_not_hang(lab: Lab) -> None:
    lab.two_looks()
    found = lab.round(NOW_MS + 2_000)
    assert found is not None
    assert found.status == "candidate"
    lab.log(NOW_MS + 2_700, entry(lab.next_offset, states.ONGOING, start_ms=NOW_MS + 2_650, at_ms=NOW_MS + 2_650))
    found = lab.round(NOW_MS + 2_800)
    assert found is not None
    assert (found.status, found.life.resolution, found.life.confirmed_at_ms) == ("resolved", "not_hanging", None)


def test_the_third_step_is_requested_only_once_the_log_is_read(lab: Lab) -> None:
    """Each third step costs a request to the leader, and hundreds of entries may wait at the same time."""
    lab.ended(NOW_MS)
    lab.opened(NOW_MS)
    lab.round(NOW_MS + 1_000)
    lab.ends(NOW_MS + 1_500, end=lab.next_offset + 1)
    lab.prober.asked.clear()
    lab.round(NOW_MS + 2_000)
    assert all(KEY not in questions.entries for questions in lab.prober.asked)
    lab.log(NOW_MS + 2_100, entry(lab.next_offset, states.EMPTY, b"another", pid=8))
    lab.round(NOW_MS + 2_200)
    assert KEY in lab.prober.asked[-1].entries


def test_the_next_round_comes_when_the_log_end_may_be_requested(lab: Lab) -> None:
    lab.ended(NOW_MS)
    lab.opened(NOW_MS)
    for at_ms, next_ms in ((ADD_IN_FLIGHT_MS - 100, ADD_IN_FLIGHT_MS), (ADD_IN_FLIGHT_MS, ADD_IN_FLIGHT_MS + SOON_MS)):
        lab.round(NOW_MS + at_ms)
        assert lab.judge.next_round_ms(NOW_MS + at_ms) == NOW_MS + next_ms


def test_the_judge_waits_while_the_previous_transaction_is_completed(lab: Lab) -> None:
    """While the previous transaction completes, the coordinator refuses AddPartitionsToTxn (CONCURRENT_TRANSACTIONS).
    The client retries, and the judge has to wait for this client."""
    lab.log(NOW_MS, entry(lab.next_offset, states.PREPARE_COMMIT, start_ms=ENDED_MS, at_ms=NOW_MS, topics=PAYMENTS))
    lab.opened(NOW_MS)
    for after_ms in range(1_000, 10_000, 500):
        lab.ends(NOW_MS + after_ms - 100)
        assert lab.round(NOW_MS + after_ms) is None
    completed_ms = NOW_MS + 10_000
    lab.log(completed_ms, entry(lab.next_offset, states.COMPLETE_COMMIT, start_ms=ENDED_MS, at_ms=completed_ms))
    for after_ms in (100, 300, ADD_IN_FLIGHT_MS):
        lab.ends(completed_ms + after_ms - 50)
        assert lab.round(completed_ms + after_ms) is None
    lab.ends(completed_ms + 100 + ADD_IN_FLIGHT_MS)
    found = lab.round(completed_ms + 200 + ADD_IN_FLIGHT_MS)
    assert found is not None
    assert found.status == "candidate"


def test_the_judge_waits_after_the_previous_transaction_is_complete(lab: Lab) -> None:
    completed_ms = NOW_MS + 400
    lab.log(NOW_MS + 500, entry(lab.next_offset, states.COMPLETE_COMMIT, start_ms=ENDED_MS, at_ms=completed_ms))
    lab.opened(NOW_MS)
    lab.round(NOW_MS + 500)
    lab.ends(completed_ms + ADD_IN_FLIGHT_MS - 1)
    assert lab.round(completed_ms + ADD_IN_FLIGHT_MS) is None
    lab.ends(completed_ms + ADD_IN_FLIGHT_MS)
    found = lab.round(completed_ms + ADD_IN_FLIGHT_MS + 100)
    assert found is not None
    assert found.status == "candidate"


def test_the_judge_waits_only_once_for_a_producer_that_keeps_committing(lab: Lab) -> None:
    """None of the producer's transactions lists the partition of the entry. The judge waits for the end of one of them,
    not of each."""
    lab.opened(NOW_MS)
    found = None
    for n in range(12):
        at_ms = NOW_MS + 250 * n
        prepared = entry(lab.next_offset, states.PREPARE_COMMIT, start_ms=at_ms - 50, at_ms=at_ms, topics=PAYMENTS)
        lab.log(at_ms, prepared)
        lab.ends(at_ms - 10)
        found = lab.round(at_ms)
    assert found is not None
    assert found.status == "confirmed"


def test_a_log_end_is_no_step_while_an_add_partitions_may_be_in_flight(lab: Lab) -> None:
    lab.ended(NOW_MS)
    lab.opened(NOW_MS)
    assert lab.round(NOW_MS + ADD_IN_FLIGHT_MS - 100) is None
    assert not any(questions.log_partitions for questions in lab.prober.asked)
    lab.ends(NOW_MS + ADD_IN_FLIGHT_MS - 50)
    assert lab.round(NOW_MS + ADD_IN_FLIGHT_MS) is None
    assert lab.prober.asked[-1].log_partitions == {0}


def assert_reported_only_after_client_wait(lab: Lab) -> None:
    """Asserts that the first two steps make no candidate before CLIENT_WAITS_MS have passed, and that they make one if
    they are repeated then."""
    lab.round(NOW_MS + 1_000)
    lab.ends(NOW_MS + 1_500)
    assert lab.round(NOW_MS + 2_000) is None
    assert_reported_after_client_wait(lab)


def assert_reported_after_client_wait(lab: Lab) -> None:
    lab.opened(NOW_MS + CLIENT_WAITS_MS)
    lab.ends(NOW_MS + CLIENT_WAITS_MS)
    found = lab.round(NOW_MS + CLIENT_WAITS_MS + 500)
    assert found is not None
    assert found.status == "candidate"


def test_the_judge_waits_for_clients_of_a_frozen_coordinator(lab: Lab) -> None:
    """The coordinator has moved away from a frozen broker. An AddPartitionsToTxn to that broker may be in flight for
    request.timeout.ms. The new coordinator does not know of this request."""
    lab.ended(NOW_MS)
    lab.opened(NOW_MS)
    lab.judge.round(NOW_MS)
    lab.leader = 2
    found = lab.round(NOW_MS + 1_000)
    for at_ms in (NOW_MS + 2_000, NOW_MS + CLIENT_WAITS_MS - 2_000):
        lab.ends(at_ms)
        lab.opened(at_ms)
        found = lab.round(at_ms + 500)
        assert found is None
    assert_reported_after_client_wait(lab)


def test_the_judge_waits_for_clients_of_an_unresponsive_broker(lab: Lab) -> None:
    """A client's next request, for leaders or for its coordinator, may go to the unresponsive broker."""
    lab.ended(NOW_MS)
    lab.opened(NOW_MS)
    lab.watched.see(silent(NOW_MS + 500, "broker 3 does not answer", partition=1, leader=3, leader_epoch=5))
    assert_reported_only_after_client_wait(lab)


def test_a_new_judge_assumes_that_brokers_were_unresponsive_before(lab: Lab) -> None:
    """After a restart the judge does not know which brokers were unresponsive before. The failure that ended the
    previous process may have hit a broker on the same node, too."""
    lab.ended(NOW_MS)
    lab.opened(NOW_MS)
    lab.restart(NOW_MS)
    assert_reported_only_after_client_wait(lab)


def test_steps_from_before_a_broker_failure_are_repeated(lab: Lab) -> None:
    lab.two_looks()
    lab.round(NOW_MS + 2_000)
    lab.seen(NOW_MS + 2_500, broker_failure_at_ms=NOW_MS + 2_400)
    found = lab.round(NOW_MS + 3_000)
    assert found is not None
    assert found.status == "candidate"


def test_a_log_end_from_a_leader_the_log_was_not_read_from_is_no_step(lab: Lab) -> None:
    """The judge does not know yet when the new leader was elected, or whether a client still waits for the previous
    leader."""
    lab.ended(NOW_MS)
    lab.opened(NOW_MS)
    lab.round(NOW_MS + 1_000)
    lab.ends(NOW_MS + 1_500, leader=(2, 0))
    assert lab.round(NOW_MS + 2_000) is None
    lab.ends(NOW_MS + 2_500, leader=(1, 0))
    assert lab.round(NOW_MS + 3_000) is not None


def test_a_candidate_that_has_ended_by_the_third_step_is_withdrawn(lab: Lab) -> None:
    lab.two_looks()
    lab.round(NOW_MS + 2_000)
    lab.seen(NOW_MS + 2_600, is_open=False, markers=(Marker(110, 0, NOW_MS + 2_500, False),))
    found = lab.round(NOW_MS + 3_000)
    assert found is not None
    assert (found.status, found.life.resolution) == ("resolved", "not_hanging")
    again = lab.round(NOW_MS + 4_000)  # the store still has the earlier sample
    assert again is not None
    assert (again.status, again.life.reopened) == ("resolved", False)


def test_an_orphan_is_certain_if_the_whole_log_was_read(lab: Lab) -> None:
    lab.opened(NOW_MS)
    lab.round(NOW_MS + 1_000)
    lab.ends(NOW_MS + 1_500)
    lab.round(NOW_MS + 2_000)
    lab.seen(NOW_MS + 2_100)
    found = lab.round(NOW_MS + 3_000)
    assert found is not None
    assert (found.status, found.observation.confidence, found.subject.transactional_id) == (
        "confirmed",
        "certain",
        None,
    )
    assert found.observation.decision == "none"
    assert found.command == (
        "kafka-transactions.sh --bootstrap-server broker:9092 abort --topic orders --partition 0 --start-offset 100"
    )


def orphan(lab: Lab) -> Finding:
    lab.opened(NOW_MS)
    lab.round(NOW_MS + 1_000)
    lab.ends(NOW_MS + 1_500)
    lab.round(NOW_MS + 2_000)
    lab.seen(NOW_MS + 2_100)
    found = lab.round(NOW_MS + 3_000)
    assert found is not None
    return found


def test_the_finding_about_an_orphan_ends_once_its_owner_is_known(lab: Lab) -> None:
    """Otherwise the finding about the orphan would stay open beside the owner's finding, with a command that nothing
    withdraws."""
    first = orphan(lab)
    lab.restart()
    found = lab.confirmed(NOW_MS + 10_000)
    assert found.subject.transactional_id == b"pay"
    with lab.reader.connect() as connection:
        ended = load(connection, lab.cluster.id, NOW_MS + 20_000)[Kind.HANGING, first.subject]
    assert (ended.status, ended.life.resolution) == ("resolved", "not_hanging")


def test_a_finding_goes_on_after_a_restart_under_a_higher_epoch(lab: Lab) -> None:
    """A later writer of the producer id has raised the epoch of the entry while txnscope was down."""
    before = lab.confirmed()
    lab.restart()
    lab.entry = open_entry(epoch=1)
    after = lab.confirmed(NOW_MS + 10_000)
    assert (after.id, after.subject) == (before.id, before.subject)
    assert "epoch 1" in after.observation.evidence[1].text


def test_an_orphan_that_may_be_copied_has_no_command(lab: Lab) -> None:
    """Some coordinator committed a transaction of the orphan's producer id on the partition, but no coordinator of this
    cluster did."""
    found = orphan(lab)
    assert (found.observation.decision, found.command is None) == ("none", False)
    assert "write no marker if the topic is copied" in found.observation.advice
    lab.restart()
    lab.facts = lab.facts._replace(markers=(Marker(50, 0, ENDED_MS, True),))
    found = orphan(lab)
    assert (found.status, found.observation.confidence) == ("confirmed", "likely")
    assert (found.observation.decision, found.command) == ("unknown", None)
    assert found.observation.advice.startswith("Write no marker")
    assert "the COMMIT marker at offset 50 has the producer id of these records" in found.observation.evidence[-1].text


def test_an_orphan_may_belong_to_an_id_that_the_cleaner_has_removed(lab: Lab) -> None:
    span = read(0, 9, end=9, asked_at_ms=NOW_MS - 1)._replace(missing=4, hole_end=6)
    lab.cluster.writer.apply(batch((), span), NOW_MS - 1)
    lab.next_offset = 9
    found = orphan(lab)
    assert (found.status, found.observation.decision, found.command) == ("confirmed", "unknown", None)
    assert found.observation.possible == ("commit", "abort", "none")
    assert "whose transactional.id is not known" in found.summary
    assert "not all records of __transaction_state-0 in [0, 6) could be read" in found.observation.evidence[-1].text


def test_an_orphan_may_belong_to_an_id_that_cannot_be_decoded(lab: Lab) -> None:
    lab.log(NOW_MS - 1, entry(0, states.UNKNOWN, b"odd"))
    found = orphan(lab)
    assert (found.status, found.observation.confidence) == ("confirmed", "likely")
    assert (found.observation.decision, found.command) == ("unknown", None)


def test_a_decision_survives_a_restart_while_logs_cannot_be_read(lab: Lab) -> None:
    lab.facts = facts_of("commit", 7, 0, 100, NOW_MS)
    assert lab.confirmed().observation.decision == "commit"
    lab.restart()
    now_ms = NOW_MS + 10_000
    lab.opened(now_ms)
    found = lab.round(now_ms + 1_000)
    assert found is not None
    assert (found.status, found.observation.decision, found.observation.possible) == (
        "confirmed",
        "commit",
        ("commit",),
    )
    assert found.observation.proofs
    assert found.command is None


def test_facts_that_contradict_a_decision_make_it_unknown(lab: Lab) -> None:
    lab.facts = facts_of("commit", 7, 0, 100, NOW_MS)
    lab.confirmed()
    lab.restart()
    lab.facts = facts_of("abort", 7, 0, 100, NOW_MS)
    found = lab.confirmed(NOW_MS + 10_000)
    assert (found.observation.decision, found.command) == ("unknown", None)
    assert "contradict each other" in found.observation.evidence[-1].text


def test_committed_records_that_another_transaction_adopts_stay_critical(lab: Lab) -> None:
    """An abort of the transaction that adopted the committed records would destroy them."""
    lab.facts = facts_of("commit", 7, 0, 100, NOW_MS)
    lab.confirmed()
    began_ms = NOW_MS + 4_000
    lab.log(began_ms, entry(lab.next_offset, states.ONGOING, start_ms=NOW_MS + 1_000, at_ms=began_ms))
    lab.opened(began_ms)
    lab.round(began_ms + 1_000)
    taken = lab.kinds(began_ms + 1_000)[Kind.ADOPTED]
    assert (taken.status, taken.severity) == ("confirmed", "critical")
    assert "An abort of the present transaction destroys them" in taken.observation.advice


def adopt_committed_records(lab: Lab) -> int:
    """Puts records of a committed transaction into an entry that the next transaction will end, and begins the next
    transaction. Returns the time (ms) one second after the first record of the next transaction."""
    lab.facts = facts_of("commit", 7, 0, 100, NOW_MS)
    lab.confirmed()
    began_ms = NOW_MS + 4_000
    lab.log(began_ms, entry(lab.next_offset, states.ONGOING, start_ms=NOW_MS + 3_500, at_ms=began_ms))
    lab.opened(began_ms)
    lab.round(began_ms + 100)
    return began_ms + 1_000


@pytest.mark.parametrize("is_restarted", [False, True])
def test_an_abort_of_the_transaction_that_adopted_records_loses_them(lab: Lab, is_restarted: bool) -> None:
    at_ms = adopt_committed_records(lab)
    if is_restarted:
        lab.restart(at_ms)
    lab.round(at_ms)
    assert KEY in lab.prober.asked[-1].entries, "the judge follows the adopted entry to its end"
    lab.watched.see(look(at_ms + 500, 111, 111), now_ms=at_ms + 500)
    lab.seen(at_ms + 1_000, is_open=False, markers=(Marker(110, 0, at_ms + 900, is_commit=False),))
    lab.round(at_ms + 1_100)
    lost = lab.kinds(at_ms + 1_100)[Kind.LOST_RECORDS]
    assert (lost.status, lost.severity, lost.subject.transactional_id) == ("confirmed", "critical", b"pay")
    assert lost.subject.start_offset == 100
    assert "another transaction of its producer id" in lost.observation.detail


def test_a_commit_of_the_transaction_that_adopted_records_loses_nothing(lab: Lab) -> None:
    at_ms = adopt_committed_records(lab)
    lab.round(at_ms)
    lab.watched.see(look(at_ms + 500, 111, 111), now_ms=at_ms + 500)
    lab.seen(at_ms + 1_000, is_open=False, markers=(Marker(110, 0, at_ms + 900, is_commit=True),))
    lab.round(at_ms + 1_100)
    assert Kind.LOST_RECORDS not in lab.kinds(at_ms + 1_100)


@pytest.mark.parametrize(("decision", "is_lost"), [("commit", True), ("abort", False)])
def test_a_manual_abort_loses_records_only_of_a_committed_transaction(lab: Lab, decision: str, is_lost: bool) -> None:
    lab.facts = facts_of(decision, 7, 0, 100, NOW_MS)
    lab.confirmed()
    lab.seen(NOW_MS + 4_000, is_open=False, markers=(Marker(110, 0, NOW_MS + 3_900, is_commit=False),))
    lab.round(NOW_MS + 5_000)
    assert (Kind.LOST_RECORDS in lab.kinds(NOW_MS + 5_000)) is is_lost


def test_adopted_committed_records_are_found_without_a_hang(lab: Lab) -> None:
    """The client continued at once, so the committed records never counted as hanging. The judge finds them, because it
    reads an entry that has been open for five seconds and may have records of an earlier transaction."""
    start_ms = NOW_MS - 1_000
    for state in (states.ONGOING, states.PREPARE_COMMIT, states.COMPLETE_COMMIT):
        lab.log(NOW_MS, entry(lab.next_offset, state, start_ms=ENDED_MS, at_ms=ENDED_MS))
    lab.log(NOW_MS, entry(lab.next_offset, states.ONGOING, start_ms=start_ms, at_ms=start_ms))
    lab.facts = facts_of("commit", 7, 0, 100, ENDED_MS)
    lab.opened(NOW_MS)
    lab.round(NOW_MS + 100)
    assert not lab.prober.asked, "an entry that has been open for a usual time is not read"
    at_ms = NOW_MS + ADOPTED_AFTER_MS
    lab.opened(at_ms)
    lab.round(at_ms)
    assert KEY in lab.prober.asked[-1].facts
    lab.seen(at_ms + 100)
    lab.round(at_ms + 200)
    found = lab.kinds(at_ms + 200)
    assert Kind.HANGING not in found
    assert (found[Kind.ADOPTED].status, found[Kind.ADOPTED].severity) == ("confirmed", "critical")


def test_orphaned_records_stay_older_than_the_transaction_that_adopts_them(lab: Lab) -> None:
    """The transaction began more than two seconds after the records were first seen. So the records are older, even if
    the clocks differ."""
    lab.two_looks()
    lab.round(NOW_MS + 2_000)
    lab.log(NOW_MS + 2_700, entry(lab.next_offset, states.ONGOING, start_ms=NOW_MS + 2_650, at_ms=NOW_MS + 2_650))
    lab.round(NOW_MS + 2_800)
    lab.opened(NOW_MS + 3_000)
    lab.round(NOW_MS + 3_100)
    assert lab.kinds(NOW_MS + 3_100)[Kind.ADOPTED].status == "confirmed"


def test_an_entry_that_is_no_longer_open_in_the_store_is_checked_at_once(lab: Lab) -> None:
    """A user may be waiting for the end of the entry, so the judge requests a check in its next round."""
    lab.confirmed()
    lab.seen(NOW_MS + 4_000)
    lab.prober.asked.clear()
    lab.round(NOW_MS + 4_100)
    assert not lab.prober.asked, "the entry was checked a moment ago"
    lab.watched.see(look(NOW_MS + 4_200, 111, 111), now_ms=NOW_MS + 4_200)
    lab.round(NOW_MS + 4_300)
    assert KEY in lab.prober.asked[-1].entries


@pytest.mark.parametrize(("is_commit", "how"), [(True, "foreign_commit"), (False, "foreign_abort")])
def test_a_marker_resolves_the_finding_and_shows_who_wrote_it(lab: Lab, is_commit: bool, how: str) -> None:
    lab.confirmed()
    lab.seen(NOW_MS + 4_000, is_open=False, markers=(Marker(110, 0, NOW_MS + 3_900, is_commit),))
    found = lab.round(NOW_MS + 5_000)
    assert found is not None
    assert (found.status, found.life.resolution, found.severity) == ("resolved", how, "critical")


def test_a_manual_marker_after_a_complete_commit_is_foreign(lab: Lab) -> None:
    """At the second step, the transaction log already has CompleteCommit, although a marker is missing (KAFKA-20734).
    After CompleteCommit, the coordinator writes no marker, so a later marker was written manually."""
    lab.log(NOW_MS, entry(lab.next_offset, states.ONGOING, start_ms=NOW_MS - 500, at_ms=NOW_MS - 500))
    lab.opened(NOW_MS)
    assert lab.round(NOW_MS + 500) is None
    for state in (states.PREPARE_COMMIT, states.COMPLETE_COMMIT):
        lab.log(NOW_MS + 1_000, entry(lab.next_offset, state, start_ms=NOW_MS - 500, at_ms=NOW_MS + 1_000))
    lab.facts = facts_of("commit", 7, 0, 100, NOW_MS)
    lab.round(NOW_MS + 1_100)
    lab.ends(NOW_MS + 1_500)
    lab.round(NOW_MS + 2_000)
    lab.seen(NOW_MS + 2_500)
    found = lab.round(NOW_MS + 3_000)
    assert found is not None
    assert found.status == "confirmed"
    lab.seen(NOW_MS + 4_000, is_open=False, markers=(Marker(110, 0, NOW_MS + 3_900, True),))
    found = lab.round(NOW_MS + 5_000)
    assert found is not None
    assert (found.status, found.life.resolution) == ("resolved", "foreign_commit")


def close_while_the_log_lags(lab: Lab) -> int:
    """Ends the entry while records of the transaction log are unread. Returns the time (ms) at which the entry was
    first seen as ended. The producer continues under the same epoch, so its next transaction may have adopted the
    records."""
    lab.confirmed()
    closed_ms = NOW_MS + 12_000
    for at_ms in (closed_ms, closed_ms + 500):
        lab.seen(at_ms, is_open=False, markers=(Marker(110, 0, closed_ms - 100, True),))
        lab.judge.round(at_ms + 100)
        found = lab.found(at_ms + 100)
        assert found is not None
        assert found.status == "confirmed"
    return closed_ms


def test_the_writer_of_a_marker_is_named_once_the_log_is_read_past_it(lab: Lab) -> None:
    closed_ms = close_while_the_log_lags(lab)
    began_ms = closed_ms - 1_000
    for state in (states.ONGOING, states.PREPARE_COMMIT, states.COMPLETE_COMMIT):
        lab.log(closed_ms + 900, entry(lab.next_offset, state, start_ms=began_ms, at_ms=began_ms + 500))
    lab.seen(closed_ms + 1_000, is_open=False, markers=(Marker(110, 0, closed_ms - 100, True),))
    found = lab.round(closed_ms + 1_100)
    assert found is not None
    assert (found.status, found.life.resolution, found.severity) == ("resolved", "adopted", "critical")


def test_the_writer_of_a_marker_stays_unknown_while_the_log_stalls(lab: Lab) -> None:
    at_ms = close_while_the_log_lags(lab) + LOG_WAIT_MS
    lab.seen(at_ms, is_open=False, markers=(Marker(110, 0, at_ms, True),))
    lab.judge.round(at_ms + 100)
    found = lab.found(at_ms + 100)
    assert found is not None
    assert (found.status, found.life.resolution) == ("resolved", "healed")


@pytest.mark.parametrize("log_start", [10, 105], ids=["whole", "first records deleted while it hung"])
def test_the_judge_waits_until_the_high_watermark_passes_the_marker(lab: Lab, log_start: int) -> None:
    """DescribeProducers shows the effect of a marker before the high watermark passes the marker. The high watermark of
    the sample is even older, so the judge has to wait for a later sample."""
    lab.confirmed()
    lab.seen(NOW_MS + 4_000, is_open=False, log_start=log_start)
    found = lab.round(NOW_MS + 4_500)
    assert found is not None
    assert found.status == "confirmed"
    its_end = (Marker(110, 0, NOW_MS + 3_990, False),)
    lab.seen(NOW_MS + 5_000, is_open=False, markers=its_end, log_start=log_start)
    found = lab.round(NOW_MS + 5_500)
    assert found is not None
    assert (found.status, found.life.resolution) == ("resolved", "foreign_abort")


@pytest.mark.parametrize(("log_start", "resolution"), [(10, "healed"), (105, "retention")])
def test_an_entry_without_a_marker_lost_its_records_or_has_healed(lab: Lab, log_start: int, resolution: str) -> None:
    lab.confirmed()
    for at_ms in (4_000, 4_000 + MARKER_WAIT_MS):
        lab.seen(NOW_MS + at_ms, is_open=False, log_start=log_start)
        found = lab.round(NOW_MS + at_ms + 100)
    assert found is not None
    assert (found.status, found.life.resolution) == ("resolved", resolution)


@pytest.mark.parametrize(("outcome", "resolution"), [(Outcome.WRITTEN, "our_marker"), (Outcome.BEGUN, "healed")])
def test_a_marker_that_txnscope_wrote_is_nobody_elses(lab: Lab, outcome: Outcome, resolution: str) -> None:
    """If a service dies, or loses its store, after it has sent a marker, no outcome is recorded. Even then, the marker
    is not called foreign."""
    found = lab.confirmed()
    attempt = Attempt(NOW_MS + 3_500, found.id, "ann", MarkerType.ABORT, "orders", 0, 7, 0, 3, 100, outcome)
    record_attempt(lab.cluster.engine, lab.cluster.id, attempt)
    marker = Marker(110, 0, NOW_MS + 3_900, False)
    for at_ms in (NOW_MS + 4_000, NOW_MS + 4_000 + OUTCOME_WITHIN_MS):
        lab.seen(at_ms, is_open=False, markers=(marker,))
        resolved = lab.round(at_ms + 1_000)
    assert resolved is not None
    assert resolved.life.resolution == resolution


def test_a_new_transaction_of_the_same_producer_adopts_the_records(lab: Lab) -> None:
    lab.confirmed()
    began_ms = NOW_MS + 20_000
    lab.log(began_ms, entry(lab.next_offset, states.ONGOING, start_ms=began_ms, at_ms=began_ms))
    found = lab.round(began_ms + 1_000)
    assert found is not None
    assert (found.status, found.life.resolution) == ("resolved", "adopted")
    assert Kind.ADOPTED not in lab.kinds(began_ms + 1_000), (
        "the entry was not seen since the transaction began, so it may have ended unseen"
    )
    seen_ms = began_ms + ADOPTED_AFTER_MS + 1
    lab.opened(seen_ms)
    lab.round(seen_ms)
    assert Kind.ADOPTED in lab.kinds(seen_ms)


def test_a_deleted_topic_resolves_the_finding(lab: Lab) -> None:
    lab.confirmed()
    lab.watched.see(look(NOW_MS + 4_000, -1, -1, is_gone=True, stalled_since_ms=None), now_ms=NOW_MS + 4_000)
    found = lab.round(NOW_MS + 5_000)
    assert found is not None
    assert found.life.resolution == "topic_deleted"


def test_a_confirmed_finding_survives_a_restart(lab: Lab) -> None:
    before = lab.confirmed()
    lab.restart()
    lab.opened(NOW_MS + 10_000)
    lab.round(NOW_MS + 10_000)
    lab.ends(NOW_MS + 10_500)
    found = lab.round(NOW_MS + 11_000)
    assert found is not None
    assert (found.id, found.status, found.life.confirmed_at_ms) == (before.id, "confirmed", before.life.confirmed_at_ms)


def test_a_transaction_that_ended_unobserved_is_resolved_after_a_restart(lab: Lab) -> None:
    lab.confirmed()
    lab.watched.see(look(NOW_MS + 9_000, 120, 120), now_ms=NOW_MS + 9_000)
    lab.restart()
    lab.round(NOW_MS + 10_000)
    assert KEY in lab.prober.asked[-1].entries
    lab.seen(NOW_MS + 10_100, is_open=False, markers=(Marker(110, 0, NOW_MS + 8_000, False),))
    found = lab.round(NOW_MS + 11_000)
    assert found is not None
    assert (found.status, found.life.resolution) == ("resolved", "foreign_abort")


def test_nothing_hangs_while_the_log_is_not_read(lab: Lab) -> None:
    lab.ended(NOW_MS)
    lab.opened(NOW_MS)
    assert lab.judge.round(NOW_MS + 60_000) == 0
    assert lab.found(NOW_MS + 60_000) is None

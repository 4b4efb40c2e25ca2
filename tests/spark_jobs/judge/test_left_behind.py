"""Tests of findings about records that were left behind when partitions were added to the transaction log."""

from __future__ import annotations

from sqlalchemy import Engine

from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.mismatch import NOT_FOUND, CoordinatorAnswer
from service.domain.findings.rules import Rules
from service.domain.transaction_log import states
from service.domain.transaction_log.coordinator_partition import is_left_behind
from service.store.writers.findings import FindingWriter, load
from spark_jobs.judge.coordinator_prober import LeftBehindAnswer, Question
from spark_jobs.judge.judge import Judge
from tests.helpers.clocks import no_work
from tests.service.store.conftest import Cluster
from tests.service.store.logs import NOW_MS, batch, entry, read, transaction

START_MS = NOW_MS - 120_000


class Coordinators:
    """Stands in for brokers that have restarted since partitions were added. With `knows`, one broker has not
    restarted, and still knows the ids that were left behind."""

    def __init__(self, knows: bool = False) -> None:
        self.knows = knows
        self.asked: list[Question] = []

    def ask(self, questions: list[Question]) -> bool:
        self.asked += questions
        self._new = list(questions)
        return True

    def answers(self) -> list[CoordinatorAnswer | LeftBehindAnswer]:
        new, self._new = getattr(self, "_new", []), []
        return [self._answer(one) for one in new]

    def _answer(self, question: Question) -> CoordinatorAnswer | LeftBehindAnswer:
        id_state = question.stored
        if question.was_left_behind:
            return LeftBehindAnswer(id_state.transactional_id, id_state.producer_id, is_known=self.knows)
        reported = states.NAMES[id_state.state], id_state.producer_id, id_state.producer_epoch
        if is_left_behind(id_state.transactional_id, id_state.partition, 8):
            reported = NOT_FOUND, -1, -1
        return CoordinatorAnswer(id_state.transactional_id, id_state.offset, NOW_MS, NOW_MS, *reported)


class Judged:
    """A transaction log of 5 partitions to which 3 were added.

    - `exp-a` (records in partition 0; hashes to 1 now) is Ongoing.
    - `exp-b` (records in partition 1; hashes to 2 now) is idle.
    - `exp-c` (records in partition 2; hashes to 3 now) has started again, in partition 3.
    - `pay-1` (records in partition 4; still hashes to 4) is Ongoing.
    """

    def __init__(self, cluster: Cluster, reader: Engine, coordinators: Coordinators) -> None:
        self.cluster, self.reader, self.coordinators = cluster, reader, coordinators
        cluster.start({})
        logs = {
            0: [entry(0, states.ONGOING, b"exp-a", pid=1, start_ms=START_MS, at_ms=START_MS)],
            1: transaction(0, b"exp-b", start_ms=START_MS, pid=2),
            2: transaction(0, b"exp-c", start_ms=START_MS, pid=3),
            3: transaction(0, b"exp-c", start_ms=NOW_MS - 1_000, pid=1000),
            4: [entry(0, states.ONGOING, b"pay-1", pid=4, start_ms=NOW_MS - 1_000, at_ms=NOW_MS - 1_000)],
            5: [],
            6: [],
            7: [],
        }
        self.ends = {partition: len(log) for partition, log in logs.items()}
        for partition, log in logs.items():
            cluster.writer.apply(batch(log, read(0, len(log), partition=partition, asked_at_ms=NOW_MS)), NOW_MS)
        writer = FindingWriter(cluster.engine, cluster.lease)
        self.judge = Judge(reader, writer, cluster.id, Rules(), coordinators, processor_s=no_work)  # type: ignore[arg-type]

    def at(self, now_ms: int) -> dict[str, Finding]:
        """Reads the log to its end, runs one round of the judge, and returns the open findings, keyed by kind."""
        for partition, end in self.ends.items():
            self.cluster.writer.apply(batch([], read(end, end, partition=partition, asked_at_ms=now_ms)), now_ms)
        self.judge.round(now_ms)
        with self.reader.connect() as connection:
            known = load(connection, self.cluster.id, now_ms)
        return {kind: finding for (kind, _), finding in known.items() if finding.is_open}


def test_ids_left_behind_share_one_finding_and_are_no_mismatch(cluster: Cluster, reader: Engine) -> None:
    judged = Judged(cluster, reader, Coordinators())
    found = judged.at(NOW_MS)
    finding = found[Kind.LOG_EXPANDED]
    assert finding.observation.title == (
        "the transaction log has 8 partitions now; 3 ids have records in a partition where no coordinator looks for"
        " them once the brokers have restarted"
    )
    assert (finding.severity, finding.life.count) == (Severity.CRITICAL, 3)
    assert finding.observation.detail == (
        "1 of them has a transaction open there, which a restarted coordinator does not end"
    )
    assert [e.text.partition(" ")[0] for e in finding.observation.evidence] == ["exp-a", "exp-b", "exp-c"]
    assert (
        finding.observation.evidence[0].text
        == "exp-a is Ongoing here; with 8 partitions, its coordinator looks in partition 1"
    )
    for round_ in range(1, 40):
        found = judged.at(NOW_MS + 1_000 * round_)
        assert Kind.COORDINATOR_MISMATCH not in found
    assert Kind.LOG_EXPANDED in found


def test_an_id_that_no_coordinator_knows_is_not_overdue(cluster: Cluster, reader: Engine) -> None:
    judged = Judged(cluster, reader, Coordinators())
    for round_ in range(3):
        found = judged.at(NOW_MS + 1_000 * round_)
    assert Kind.OVERDUE not in found
    assert any(q.was_left_behind for q in judged.coordinators.asked)


def test_an_id_that_a_former_coordinator_knows_is_overdue_with_the_reason(cluster: Cluster, reader: Engine) -> None:
    judged = Judged(cluster, reader, Coordinators(knows=True))
    for round_ in range(3):
        found = judged.at(NOW_MS + 1_000 * round_)
    assert "coordinator now reads only partition 1" in found[Kind.OVERDUE].observation.advice

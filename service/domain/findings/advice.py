"""The facts and words of findings about the open transaction of an id: long-running, overdue and stuck.

Advice names a cause only if the cause is possible by the known facts, and never presents a list of causes as complete.
Advice that ends a transaction says what becomes of its records. `tests/service/domain/findings/test_advice.py` checks
the advice for every combination of facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from service.domain.applications import NOTHING, Application, Framework, is_two_phase, may_be_two_phase
from service.domain.findings.finding import Observation, SharedFacts, Words
from service.domain.findings.formatting import Names, utc
from service.domain.reasons.hanging import SKIPPING
from service.domain.transaction_log.states import NAMES, PREPARE_ABORT, PREPARE_COMMIT, TOPIC

_LONG_TIMEOUT_MS: Final = 900_000
"""Kafka's default transaction.max.timeout.ms: a client that sets a timeout of this length, or a longer one, keeps
transactions open on purpose."""


class TwoPhase(StrEnum):
    """The confidence that a two-phase sink made the transaction. Such a sink commits only after a checkpoint."""

    NO = "no"
    LIKELY = "likely"
    CERTAIN = "certain"


def two_phase_of(name: str, timeout_ms: int, maker: Application = NOTHING) -> TwoPhase:
    """Returns the confidence that a two-phase sink made the id, judged by the id's form, timeout and maker. CERTAIN if
    the maker is Apache Flink, or if the transaction has no timeout (KIP-939). LIKELY if the maker is unknown, and the
    id has Flink's form or the timeout is long."""
    if is_two_phase(maker, timeout_ms):
        return TwoPhase.CERTAIN
    is_likely = may_be_two_phase(name, timeout_ms) or timeout_ms >= _LONG_TIMEOUT_MS
    return TwoPhase.LIKELY if maker.kind == Framework.UNKNOWN and is_likely else TwoPhase.NO


class Answer(StrEnum):
    """The coordinator's answer about an id, compared with the id's newest record in the log."""

    NONE = "none"
    """The coordinator was not asked or did not answer, or the advice does not depend on its answer."""
    AGREES = "agrees"
    """The coordinator has the id in the state of the newest record, so the coordinator has loaded the partition of the
    log."""
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an id's newest record. `partition`: of the transaction log; `leader`: the broker that leads it (-1:
    none). `looked_for_in`: if the record was left behind when partitions were added, the partition to which the id
    hashes now; else None."""

    partition: int
    leader: int
    looked_for_in: int | None = None

    @property
    def log_partition(self) -> str:
        return f"{TOPIC}-{self.partition}"

    @property
    def coordinator(self) -> str:
        who = f"broker {self.leader}, leader of" if self.leader >= 0 else "no broker leads"
        return f"its coordinator ({who} {self.log_partition})"

    @property
    def was_left_behind(self) -> bool:
        return self.looked_for_in is not None


@dataclass(frozen=True, slots=True)
class Sink:
    """The two-phase sink that may have opened a transaction. `producer_id`, `producer_epoch`: the values with which a
    recovery of the sink's application commits the transaction. `deadline_ms`: the time at which the transaction times
    out; None if it never times out, or if the time is not known. `prefix`: the prefix of the ids of the job; None
    unless Apache Flink made the id."""

    two_phase: TwoPhase
    producer_id: int
    producer_epoch: int
    deadline_ms: int | None
    prefix: str | None = None


@dataclass(frozen=True, slots=True)
class LongRunningFacts(SharedFacts):
    """A transaction of the id `name` that has been open since `started_ms` on `partitions`. `is_near`: a two-phase sink
    is known to have made the transaction, and the transaction's deadline is near."""

    name: str
    started_ms: int
    place: Place
    sink: Sink
    partitions: Names
    is_near: bool

    def words(self, _: Observation, /) -> Words:
        if self.more:
            return Words(
                self.rest(
                    "transaction is long-running, within its timeout",
                    "transactions are long-running, within their timeout",
                ),
                self.advice(),
            )
        deadline_ms = self.sink.deadline_ms
        is_lost = self.is_near and deadline_ms
        deadline = f"; it times out at {utc(deadline_ms or 0)} unless its job ends it before" if is_lost else ""
        return Words(
            f"{self.name} has been open since {utc(self.started_ms)}, within its timeout{deadline}",
            self.advice(),
            f"read_committed consumers may wait behind it on {self.partitions}",
        )

    def advice(self) -> str:
        place, sink = self.place, self.sink
        if place.was_left_behind:
            return _left_behind(place)
        if sink.two_phase is TwoPhase.NO:
            return (
                "The transaction's application has to commit or abort it. If the application is gone, a new start with"
                " the same transactional.id aborts the transaction at once: its records are discarded, as they are at"
                " the timeout."
            )
        return _of_sink(sink)


@dataclass(frozen=True, slots=True)
class OverdueFacts(SharedFacts):
    """A transaction of the id `name` that timed out and is open on `partitions`. `neighbours_progress`: True if a
    record of another id was written to the log partition after the abort was due. `written_under`: the transaction
    version of the client, from the record. `finalized`: the transaction.version of the cluster; None if not known."""

    name: str
    partitions: Names
    place: Place
    sink: Sink
    neighbours_progress: bool
    written_under: int
    finalized: int | None
    answer: Answer

    @property
    def is_above_finalized(self) -> bool:
        """Returns whether the record was written under a version above the finalized one."""
        return self.finalized is not None and self.written_under > self.finalized

    def words(self, _: Observation, /) -> Words:
        if self.more:
            return Words(
                self.rest(
                    "transaction is past its timeout and not aborted",
                    "transactions are past their timeout and not aborted",
                ),
                self.advice(),
            )
        return Words(
            f"{self.name} is overdue: its transaction timed out, and the coordinator has not aborted it",
            self.advice(),
            f"it may block {self.partitions}",
        )

    def advice(self) -> str:
        place = self.place
        if place.was_left_behind:
            return _left_behind(place, is_overdue=True)
        if self.neighbours_progress:
            parts = [
                f"A record of another id was written to {place.log_partition} after the transaction's abort was due, so"
                f" {place.coordinator} could write. The abort may be pending in the coordinator's memory, or"
                f" that memory may lack the transaction. Move the leadership of {place.log_partition} to another"
                " broker and back, or restart the leader: the partition is then loaded anew, and the abort is expected."
            ]
        elif self.answer is Answer.NOT_FOUND:
            parts = [
                f"Look at {place.coordinator}: it does not know the transaction that is in the transaction log. Search"
                ' the log of that broker for "Error loading transactions", and move the leadership of'
                f" {place.log_partition} to another broker: if that broker loads the whole partition, it is expected to"
                " abort the transaction."
            ]
        elif self.answer is Answer.AGREES:
            parts = [
                f"Look at {place.coordinator}: it has loaded the transaction and does not abort it. Check"
                " whether the broker can write to the partition (ISR and min.insync.replicas), and check its clock. If"
                f" both are in order, move the leadership of {place.log_partition} to another broker: the partition is"
                " then loaded anew."
            ]
        elif place.leader < 0:
            parts = [
                f"{place.log_partition} has no leader: bring one of its replicas back. That"
                " broker is then expected to abort the transaction."
            ]
        else:
            parts = [
                f"Look at {place.coordinator}: it does not abort the transaction, and the reason is not known. Check"
                " the log and the clock of that broker, and the ISR of the partition. If all are in order, move the"
                f" leadership of {place.log_partition} to another broker: the partition is then loaded anew."
            ]
        if self.is_above_finalized:
            parts.append(
                f"The id's newest record was written under transaction.version {self.written_under}, and version"
                f" {self.finalized} is finalized now: producers that were started before the feature was lowered can"
                " neither end nor begin a transaction. Start them again after the abort. Raising the feature again does"
                " not help."
            )
        else:
            parts.append("Restarting the application may not help before the abort.")
        parts.append(f"An abort discards the records.{checkpoint(self.sink.two_phase)}")
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class StuckFacts(SharedFacts):
    """A decided transaction of the id `name`. `is_commit`: True if the decision is to commit. `is_asked`: True if the
    coordinator reported which partitions lack their marker. `missing`: these partitions; empty if only the CompleteX is
    missing. If not `is_asked`, `missing` has all partitions of the transaction. `may_skip_markers`: from
    `service.domain.releases`."""

    name: str
    is_commit: bool
    missing: Names
    is_asked: bool
    place: Place
    may_skip_markers: bool | None

    def words(self, _: Observation, /) -> Words:
        if self.more:
            return Words(
                self.rest("transaction is decided but not complete", "transactions are decided but not complete"),
                self.advice(),
            )
        state = NAMES[PREPARE_COMMIT if self.is_commit else PREPARE_ABORT]
        if self._lacks_only_the_end:
            return Words(
                f"{self.name} is stuck in {state}: its coordinator reports no partition without a marker, but"
                f" has not written the end of the transaction to {self.place.log_partition}",
                self.advice(),
            )
        is_one = self.missing.count == 1
        if not self.missing.count:
            silent = "its coordinator has not written the end of the transaction"
        elif not self.is_asked:
            markers = (
                f"whether {self.missing} lacks its marker" if is_one else f"which of {self.missing} lack their marker"
            )
            silent = f"the coordinator has not said {markers}"
        elif is_one:
            silent = f"the leader of {self.missing} has not acknowledged its marker"
        else:
            silent = f"the leaders of {self.missing} have not acknowledged their markers"
        return Words(f"{self.name} is stuck in {state}: {silent}", self.advice())

    @property
    def _lacks_only_the_end(self) -> bool:
        return self.is_asked and not self.missing.count

    def advice(self) -> str:
        place = self.place
        if self._lacks_only_the_end:
            return (
                f"Look at {place.coordinator}: it has not written the end of the transaction to {place.log_partition}."
                " Check the ISR and min.insync.replicas of that partition, and the log of the broker. Partitions"
                " of topics that txnscope has no permission to describe are not reported, and may lack their marker."
                " The application cannot begin another transaction with the id until the end is written."
            )
        outcome = (
            "The transaction was committed: its records become readable when the markers are there."
            if self.is_commit
            else "The transaction was aborted: its records are discarded when the markers are there."
        )
        if place.was_left_behind:
            return (
                f"Partitions were added to {TOPIC}: the record lies in partition {place.partition}, and the id's"
                f" coordinator looks in partition {place.looked_for_in}. Markers of such a transaction are sent only"
                f" when a broker loads {place.log_partition}: bring the leaders of the transaction's partitions back,"
                f" then move the leadership of {place.log_partition} to another broker. The record stays as it is."
                f" {outcome}"
            )
        skips = (
            f" A coordinator of Kafka {SKIPPING} skips a partition without leader (KAFKA-20734): the transaction then"
            " completes, and that partition hangs."
            if self.may_skip_markers
            else ""
        )
        return (
            "Bring the leaders of the partitions without a marker back, and the ISR of these partitions to at least"
            " min.insync.replicas: the coordinator then writes the markers. If leaders and ISR are in order,"
            f" {place.coordinator} may have given up on a refused marker: move the leadership of {place.log_partition}"
            " to another broker. Neither the transaction's timeout nor a restart of the application ends this"
            f" transaction.{skips} {outcome}"
        )


def _of_sink(sink: Sink) -> str:
    """Returns the advice about a transaction that may be pre-committed. A checkpoint may already count its records
    as delivered; then only a commit of this transaction keeps them (`KafkaCommitter` of flink-connector-kafka,
    KIP-939)."""
    until = "" if sink.deadline_ms is None else f" before {utc(sink.deadline_ms)}"
    lost = "" if sink.deadline_ms is None else " The abort at the timeout loses them too."
    ids = f"producer id {sink.producer_id} and epoch {sink.producer_epoch}"
    discards = (
        "Do not start another producer with this transactional.id, nor the job without its state: that discards the"
        f" transaction at once, and records that a checkpoint counts as delivered are lost.{lost}"
    )
    if sink.two_phase is TwoPhase.CERTAIN:
        shows, whose = "This is a transaction of a", "its application"
        if sink.prefix is not None:
            shows = "By the form and use of its id this is a transaction of Apache Flink's"
            whose = f"the job with the id prefix {sink.prefix}"
        return (
            f"{shows} two-phase sink. If {whose} runs, it may still commit the transaction after a checkpoint. If it"
            f" does not run, restore it from its last checkpoint or savepoint{until}, or commit the transaction with"
            f" its {ids}. {discards} The log does not show whether a checkpoint holds the transaction."
        )
    return (
        "The transaction's application has to commit or abort it. By its id or timeout, it may be a transaction of a"
        " two-phase sink such as Apache Flink's. If it is, restore the job from its last checkpoint or"
        f" savepoint{until}, or commit the transaction with its {ids}. {discards}"
    )


def checkpoint(two_phase: TwoPhase) -> str:
    if two_phase is TwoPhase.NO:
        return ""
    return (
        " If a checkpoint of the application (a two-phase sink such as Apache Flink's) counts these records as"
        " delivered, they are lost, and have to be produced again."
    )


def _left_behind(place: Place, *, is_overdue: bool = False) -> str:
    leader = (
        "Its timeout has passed, and the coordinator has not aborted it."
        if is_overdue
        else f"If the leader of {place.log_partition} has not restarted since then, it still aborts the transaction at"
        " its timeout, and the records are discarded."
    )
    return (
        f"Partitions were added to {TOPIC}: the record of this id is in partition {place.partition}, and the id's"
        f" coordinator now reads only partition {place.looked_for_in}. {leader} After a restart of the leader of"
        f" {place.log_partition} no coordinator ends the transaction; if it has a timeout, it is then reported as"
        " hanging. Starting the application again does not end it then: the id gets a new producer id, and this"
        " transaction stays open."
    )

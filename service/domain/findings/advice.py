"""The advice of findings about transactions that are open: a function of typed facts for each kind.

An advice names a cause only if the known facts leave it possible, and never lists causes as if there were no other. An
advice after which a transaction ends says what becomes of its records. `tests/service/domain/findings/test_advice.py`
reads every advice against every combination of facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from service.domain.applications import NOTHING, Application, Framework, is_two_phase, may_be_two_phase
from service.domain.findings.formatting import utc
from service.domain.reasons.hanging import SKIPPING
from service.domain.transaction_log.states import TOPIC
from service.domain.worlds.verdict import Decided

_LONG_TIMEOUT_MS: Final = 900_000
"""Kafka's default transaction.max.timeout.ms: a client that asks for as much keeps transactions open on purpose."""


class TwoPhase(Enum):
    """Confidence that the transaction is of a two-phase sink, which commits it after a checkpoint."""

    NO = "no"
    LIKELY = "likely"
    CERTAIN = "certain"


def two_phase_of(name: str, timeout_ms: int, maker: Application = NOTHING) -> TwoPhase:
    """Returns what the id, its timeout and its maker show. No timeout is KIP-939's two-phase commit; of an unknown
    maker, Flink's form of ids, or a long timeout, makes it likely."""
    if is_two_phase(maker, timeout_ms):
        return TwoPhase.CERTAIN
    is_likely = may_be_two_phase(name, timeout_ms) or timeout_ms >= _LONG_TIMEOUT_MS
    return TwoPhase.LIKELY if maker.kind == Framework.UNKNOWN and is_likely else TwoPhase.NO


class Answer(Enum):
    """The coordinator's answer about an id whose newest record is not the last word."""

    NONE = "none"
    """It was not asked, or did not answer."""
    AGREES = "agrees"
    """It has the id in the state of the newest record: it has loaded the partition of the log."""
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True)
class Place:
    """The partition of the log with the id's newest record; the broker that leads it (-1: none); the partition to which
    the id hashes, if that is another one: the record was left behind when partitions were added."""

    partition: int
    leader: int
    looked_for_in: int | None = None

    @property
    def log_partition(self) -> str:
        return f"{TOPIC}-{self.partition}"

    @property
    def coordinator(self) -> str:
        who = f"broker {self.leader}" if self.leader >= 0 else "no broker"
        return f"its coordinator ({who}, leader of {self.log_partition})"

    @property
    def was_left_behind(self) -> bool:
        return self.looked_for_in is not None


@dataclass(frozen=True, slots=True)
class Sink:
    """The application as far as its transaction shows it. A recovery commits with `producer_id` and `producer_epoch`.
    `deadline_ms`: when it times out; None: never, or not known. `prefix`: of the ids of an Apache Flink job; None for
    others."""

    two_phase: TwoPhase
    producer_id: int
    producer_epoch: int
    deadline_ms: int | None
    prefix: str | None = None


@dataclass(frozen=True, slots=True)
class LongRunning:
    place: Place
    sink: Sink


@dataclass(frozen=True, slots=True)
class Overdue:
    """`neighbours_progress`: another id of the log partition was written after the abort was due. `written_under`: the
    client's transaction version in the record. `finalized`: the cluster's transaction.version; None if not known."""

    place: Place
    sink: Sink
    neighbours_progress: bool
    written_under: int
    finalized: int | None
    answer: Answer

    @property
    def is_above_finalized(self) -> bool:
        """Returns whether the record was written under a higher version than is finalized now."""
        return self.finalized is not None and self.written_under > self.finalized


@dataclass(frozen=True, slots=True)
class Stuck:
    """`is_commit`: the decision. `may_skip_markers`: from `service.domain.releases`."""

    place: Place
    is_commit: bool
    may_skip_markers: bool | None


@dataclass(frozen=True, slots=True)
class Hanging:
    """`name`: of the owner; None if it is not known. `can_still_write`: its producer may have this producer id and
    epoch. `was_left_behind`: its id was, when partitions were added to the log. `is_foreign`: its records are not those
    of the id with its producer id. `may_write_unlisted`: its producer may write to it in a transaction that does not
    list the partition. `holds_committed`: records of a committed transaction are in it.
    """

    decision: Decided
    name: str | None
    can_still_write: bool
    was_left_behind: bool
    two_phase: TwoPhase
    is_foreign: bool = False
    may_write_unlisted: bool = False
    holds_committed: bool = False


@dataclass(frozen=True, slots=True)
class TimedOut:
    """`needed`: a clause about the timeout that would have been enough."""

    two_phase: TwoPhase
    needed: str


def long_running(facts: LongRunning) -> str:
    place, sink = facts.place, facts.sink
    if place.was_left_behind:
        return f"{_left_behind(place)} {_starting_anew()}"
    if sink.two_phase is TwoPhase.NO:
        return (
            "Its application has to commit or abort it. If it is gone, starting it again with the same transactional.id"
            " aborts the transaction at once: its records are discarded, as they are at the timeout."
        )
    return _of_sink(sink)


def overdue(facts: Overdue) -> str:
    place = facts.place
    if place.was_left_behind:
        return f"{_left_behind(place)} {_starting_anew()}"
    if facts.neighbours_progress:
        parts = [
            f"Only this transaction is held up: other ids of {place.log_partition} were written after its abort was"
            f" due, so {place.coordinator} works and can write. The end of this one is pending in its memory. Move the"
            f" leadership of {place.log_partition} to another broker and back, or restart its leader: the partition"
            " is then loaded anew, and the transaction aborted."
        ]
    elif facts.answer is Answer.NOT_FOUND:
        parts = [
            f"Look at {place.coordinator}: it does not know the transaction that its log has. Look for"
            ' "Error loading transactions" in its log, and move the leadership of the partition to another broker: the'
            " transaction is aborted when the partition is loaded whole."
        ]
    elif facts.answer is Answer.AGREES:
        parts = [
            f"Look at {place.coordinator}: it has the transaction loaded and does not abort it, and no other id of its"
            " partition was written since the abort was due. Check whether it can write there (ISR and"
            " min.insync.replicas of the partition), and its clock. If both are well, move the leadership of"
            f" {place.log_partition} to another broker: the partition is then loaded anew."
        ]
    elif place.leader < 0:
        parts = [
            f"{place.log_partition} has no leader: bring one of its replicas back. It then aborts the transaction."
        ]
    else:
        parts = [
            f"Look at {place.coordinator}: it does not abort the transaction, and why is not known. Check the log of"
            " that broker, the ISR of the partition and its clock. If all of them are well, move the leadership of"
            f" {place.log_partition} to another broker: the partition is then loaded anew."
        ]
    if facts.is_above_finalized:
        parts.append(
            f"The id was written under transaction.version {facts.written_under}, and {facts.finalized} is finalized"
            " now: producers that were started before can neither end nor begin a transaction, and have to be started"
            " again after that. Raising the feature again does not help."
        )
    else:
        parts.append("Restarting the application does not help before that.")
    parts.append(f"An abort discards the records.{_checkpoint(facts.sink.two_phase)}")
    return " ".join(parts)


def stuck(facts: Stuck) -> str:
    place = facts.place
    outcome = (
        "It was committed: its records become readable when the markers are there."
        if facts.is_commit
        else "It was aborted: its records are discarded, whatever is done."
    )
    if place.was_left_behind:
        return (
            f"Partitions were added to {TOPIC}: the record lies in partition {place.partition}, and its coordinator"
            f" looks in {place.looked_for_in}. Markers of such a transaction are sent only when a broker loads"
            f" {place.log_partition}: bring the leaders of its partitions back, then move the leadership of"
            f" {place.log_partition} to another broker. The record stays as it is. {outcome}"
        )
    skips = (
        f" A coordinator of Kafka {SKIPPING} skips a partition without leader (KAFKA-20734): the transaction then"
        " completes, and that partition hangs."
        if facts.may_skip_markers
        else ""
    )
    return (
        "Bring the leaders of these partitions back, or above min.insync.replicas; the coordinator retries the markers"
        " without limit. If these leaders are well, move the leadership of the log partition:"
        f" {place.coordinator} may have given up. The timeout does not end it, and restarting the application does not"
        f" help.{skips} {outcome}"
    )


def hanging(facts: Hanging) -> str:
    if facts.is_foreign:
        return (
            "Write no marker: it would decide about records of another cluster. If the topic is a mirror, or its files"
            " were copied, declare it with `--mirrored`; txnscope then leaves it out. If it is neither, find out who"
            " writes there with another cluster's producer ids."
        )
    if facts.may_write_unlisted and facts.decision in (Decided.ABORT, Decided.NONE):
        return (
            f"No committed transaction has written to it yet, but {facts.name} can still do so under this epoch,"
            " without listing the partition: stop its producer, or let it initialise again, which aborts what the id"
            " has open and discards those records. Then, if the decision stays, write the ABORT marker with `txnscope"
            " resolve`: it discards these records."
        )
    if facts.decision == Decided.COMMIT:
        text = (
            "Do not abort it: its transaction was committed, and `kafka-transactions.sh abort` would discard this part"
            " of it. Write the missing COMMIT marker with `txnscope resolve`; Kafka's tools cannot."
        )
    elif facts.decision == Decided.ABORT:
        text = (
            "No committed transaction can have written it: write the missing ABORT marker with the command, or"
            f" `txnscope resolve`. It discards these records.{_checkpoint(facts.two_phase)}"
        )
    elif facts.decision == Decided.NONE:
        text = (
            "Its records belong to no transaction that was committed: write an ABORT marker with the command, or"
            " `txnscope resolve`. It discards these records. Restarting the application does not help."
            + _checkpoint(facts.two_phase)
        )
    elif facts.holds_committed:
        text = (
            "Do not abort it: it holds records of a committed transaction, and an ABORT marker destroys them. Whether"
            " it holds others, too, is not known: find out from the application before anything is written."
        )
    else:
        text = (
            "Whether its transaction was committed is not known, and the wrong marker loses data: find out from the"
            " application before anything is written. It will not heal by itself."
        )
    return text + _fence(facts)


def timed_out(facts: TimedOut) -> str:
    return (
        f"The records of these transactions are discarded.{_checkpoint(facts.two_phase)} If the application is too"
        f" slow, commit more often or raise transaction.timeout.ms: {facts.needed}. If it stopped, find out why. A"
        " producer of the old protocol is fenced by the abort and has to be started again."
    )


def timed_out_together(two_phase: TwoPhase) -> str:
    return (
        "This is the trace of an outage, of brokers, the network or the application itself: for longer than their"
        " transaction.timeout.ms these transactions were not ended. Their records are discarded."
        f"{_checkpoint(two_phase)} Producers of the old protocol that still run are fenced by these aborts, with or"
        " without a second instance: start them again. To survive such an outage, raise"
        " transaction.timeout.ms (up to the brokers' transaction.max.timeout.ms)."
    )


def _fence(facts: Hanging) -> str:
    if facts.name is None or not facts.can_still_write:
        return ""
    if facts.was_left_behind:
        return (
            f" A producer of {facts.name} that runs since before partitions were added to {TOPIC} can still write"
            " there: stop it before you write the marker."
        )
    return (
        f" {facts.name} can still write under this epoch: stop its producer, or let it initialise again, before you"
        " write the marker. Initialising aborts whatever the id has open by then, and discards those records."
    )


def _of_sink(sink: Sink) -> str:
    """Returns the advice about a transaction that may be pre-committed: its records may be in a checkpoint, which
    counts them as delivered, and then only a commit of this very transaction keeps them (`KafkaCommitter` of
    flink-connector-kafka, KIP-939)."""
    until = "" if sink.deadline_ms is None else f" before {utc(sink.deadline_ms)}"
    lost = "" if sink.deadline_ms is None else " The abort at the timeout loses them too."
    ids = f"producer id {sink.producer_id} and epoch {sink.producer_epoch}"
    discards = (
        "Do not start another producer with this transactional.id, nor the job without its state: that discards the"
        f" transaction at once, and records that a checkpoint counts as delivered are lost.{lost}"
    )
    if sink.two_phase is TwoPhase.CERTAIN:
        shows, whose = "This is one of a", "its application"
        if sink.prefix is not None:
            shows = "By the form and use of its id this is a transaction of Apache Flink's"
            whose = f"the job with the id prefix {sink.prefix}"
        return (
            f"{shows} two-phase sink. If {whose} runs, its next checkpoint commits it. If it is gone, restore it from"
            f" its last checkpoint or savepoint{until}, or commit the transaction with its {ids}. {discards} The log"
            " does not show whether a checkpoint holds it."
        )
    return (
        "Its application has to commit or abort it. By its id or timeout it may be of a two-phase sink such as Apache"
        f" Flink's. If it is, restore the job from its last checkpoint or savepoint{until}, or commit the transaction"
        f" with its {ids}. {discards}"
    )


def _checkpoint(two_phase: TwoPhase) -> str:
    if two_phase is TwoPhase.NO:
        return ""
    return (
        " If a checkpoint of its application (a two-phase sink such as Apache Flink's) counts them as delivered, they"
        " are lost, and have to be produced again."
    )


def _left_behind(place: Place) -> str:
    return (
        f"Partitions were added to {TOPIC}: the record lies in partition {place.partition}, and the id's coordinator"
        f" looks in {place.looked_for_in}. No timeout ends the transaction, unless the leader of"
        f" {place.log_partition} has not restarted since then: it then still aborts it, and discards its records."
        " What nobody ends is reported as hanging, with the marker that ends it."
    )


def _starting_anew() -> str:
    return (
        "Starting the application again does not end it: the id gets a new producer id, and this transaction stays"
        " open."
    )

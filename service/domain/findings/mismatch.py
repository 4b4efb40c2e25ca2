"""Findings about ids for which the coordinator reports another state than the transaction log has. Either the
coordinator loaded its partition only in part, or an append failed and the coordinator's memory differs from the log
(`TransactionStateManager.updateCacheCallback`).

Up to Kafka 4.2, a coordinator that loads a value of an unknown version drops every later id of that partition; clients
get no error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from service.domain.findings.advice import Answer, Place
from service.domain.findings.conditions import IdState, about_id, place_of
from service.domain.findings.context import Context
from service.domain.findings.finding import Evidence, Facts, Observation, RoundResult, Words
from service.domain.findings.kinds import Kind, Severity
from service.domain.transaction_log.causes import Confidence
from service.domain.transaction_log.coordinator_partition import is_left_behind
from service.domain.transaction_log.states import NAMES

NOT_FOUND: Final = "not found"

_NOT_LOADED: Final = (
    "The coordinator may have loaded its partition only in part. Then it never ends the open transactions of the ids"
    ' that it did not load. Search the log of the broker for "Error loading transactions"; move the leadership of the'
    " partition to another broker, or upgrade if loading fails on a record (fixed in 4.3)."
)
_OTHERWISE: Final = (
    "The coordinator knows the id, but its memory differs from the transaction log. Three possible causes are"
    " known. First, the transaction log may have an append that the coordinator considers failed: search the log of the"
    " broker for failed appends, and check the ISR of the partition. Second, the coordinator may have raised the epoch"
    " for an abort that it could not write: look in the same places. Third, the coordinator may have loaded the"
    " partition only up to a record that it cannot read (before 4.3): search the log of the broker for"
    ' "Error loading transactions". If the difference stays, move the leadership of the partition to another broker:'
    " the partition is then loaded anew, and the decision in the transaction log is completed. If the decision is an"
    " abort, the records are discarded."
)


MOST_LEADERS: Final = 10
"""Maximum number of partitions without a marker whose leaders are looked up for one transaction."""


class WithoutMarker(NamedTuple):
    """A partition of a transaction in PrepareX that still lacks its marker. `leader`: -1 if the partition has no
    leader; None if the leader was not looked up."""

    topic: str
    partition: int
    leader: int | None = None

    def __str__(self) -> str:
        if self.leader is None:
            return f"{self.topic}-{self.partition}"
        return f"{self.topic}-{self.partition} (leader {'none' if self.leader < 0 else f'broker {self.leader}'})"


class CoordinatorAnswer(NamedTuple):
    """A coordinator's answer about an id, given between `asked_at_ms` and `answered_at_ms`; `state`: Kafka's name of
    the state, or NOT_FOUND.

    `offset`: the offset of the id's newest record in the store when the question was sent. `missing`: in state
    PrepareX, the partitions that still lack their marker; None in other states. Leaders are looked up for at most
    MOST_LEADERS of these partitions. `log_partitions`: for NOT_FOUND, the number of partitions of the transaction log
    that the coordinator reported after this answer; 0 if it reported none. The store may not know this number yet."""

    transactional_id: bytes
    offset: int
    asked_at_ms: int
    answered_at_ms: int
    state: str
    producer_id: int
    producer_epoch: int
    missing: tuple[WithoutMarker, ...] | None = None
    log_partitions: int = 0

    def agrees(self, id_state: IdState) -> bool:
        reported = self.state, self.producer_id, self.producer_epoch
        return reported == (NAMES[id_state.state], id_state.producer_id, id_state.producer_epoch)


class Compared(NamedTuple):
    """A coordinator's answer, and the id's row in the store. When the row was read, everything written to the log up to
    the time of the answer was known."""

    answer: CoordinatorAnswer
    now: IdState


def is_comparable(answer: CoordinatorAnswer, now: IdState | None, context: Context) -> bool:
    """Returns whether everything written to the log up to the time of the answer is known, and includes no new record
    of the id since the question was sent."""
    if now is None or now.offset != answer.offset:
        return False
    return context.log.known_until_ms.get(now.partition, -1) > answer.answered_at_ms


def mismatches(compared: Iterable[Compared], suspects: Iterable[bytes], context: Context) -> RoundResult:
    """Returns the round's result, with an observation for each answer that contradicts the log. `suspects`: ids that
    differed in an earlier round. The first time that an id differs, the finding is only a candidate, because an append
    may be under way."""
    compared, known = list(compared), set(suspects)
    return RoundResult(
        tuple(_observe(c, c.now.transactional_id in known, context) for c in compared if _differs(c, context)),
        frozenset({Kind.COORDINATOR_MISMATCH}),
        frozenset(c.now.partition for c in compared),
        False,
        frozenset(c.now.transactional_id for c in compared),
    )


def answer_of(compared: Compared, context: Context) -> Answer:
    """Returns the coordinator's answer about the id in the form that the advice needs."""
    if compared.answer.agrees(compared.now):
        return Answer.AGREES
    if _was_left_behind(compared, context):
        return Answer.NONE
    return Answer.NOT_FOUND if compared.answer.state == NOT_FOUND else Answer.NONE


def _differs(compared: Compared, context: Context) -> bool:
    """Returns whether the coordinator contradicts the log. A record that was left behind when partitions were added to
    the log contradicts nothing, because the coordinator does not read it any more (`log_expanded`)."""
    return not _was_left_behind(compared, context) and not compared.answer.agrees(compared.now)


def _was_left_behind(compared: Compared, context: Context) -> bool:
    answer, now = compared
    count = max(context.log.partition_count, answer.log_partitions)
    return is_left_behind(now.transactional_id, now.partition, count)


@dataclass(frozen=True, slots=True)
class MismatchFacts(Facts):
    """A coordinator that reports `said` (NOT_FOUND, or Kafka's name of a state, with producer id and epoch), although
    the transaction log has the id in the state `logged`."""

    name: str
    place: Place
    said: str
    producer_id: int
    producer_epoch: int
    logged: str

    @property
    def reported(self) -> str:
        if self.said == NOT_FOUND:
            return "does not know the id (TRANSACTIONAL_ID_NOT_FOUND)"
        return f"reports {self.said}, producer id {self.producer_id}, epoch {self.producer_epoch}"

    def words(self, _: Observation, /) -> Words:
        return Words(
            f"{self.name}: {self.place.coordinator} {self.reported}, but the transaction log has {self.logged}",
            _NOT_LOADED if self.said == NOT_FOUND else _OTHERWISE,
        )


def _observe(compared: Compared, is_repeated: bool, context: Context) -> Observation:
    answer, id_state = compared
    facts = MismatchFacts(
        id_state.name,
        place_of(id_state, context),
        answer.state,
        answer.producer_id,
        answer.producer_epoch,
        NAMES[id_state.state],
    )
    said = Evidence(answer.answered_at_ms, "DescribeTransactions", f"the coordinator {facts.reported}")
    return about_id(
        id_state, context, kind=Kind.COORDINATOR_MISMATCH, severity=Severity.CRITICAL, facts=facts, evidence=[said]
    )._replace(
        confidence=Confidence.CERTAIN if is_repeated and answer.state == NOT_FOUND else Confidence.LIKELY,
        confirmed=is_repeated,
    )

"""Present states of ids, from which the rules derive conditions, and the bound on the findings that name an id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from service.domain.findings.advice import Place
from service.domain.findings.context import Context, with_rule
from service.domain.findings.finding import Evidence, Facts, Observation, SharedFacts, Subject
from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.rules import Rule
from service.domain.partitions.facts import LogPlace
from service.domain.transaction_log.coordinator_partition import coordinator_partition, is_left_behind
from service.domain.transaction_log.states import NAMES, TOPIC

MOST_IDS: Final = 30
"""Maximum number of ids (or topics, or groups) that get a finding of their own, for each kind. All others share one
finding."""


class IdState(NamedTuple):
    """The newest record of an id. `topics`: (topic, partition) of its open transaction.

    `state_since_ms`: when the state began (Ongoing: the start of the transaction; PrepareX: the time of its first
    record). `timestamp_ms`: the time of the newest record. `client_transaction_version`: the version under which its
    client wrote, 0 in the old protocol.
    """

    transactional_id: bytes
    name: str
    partition: int
    offset: int
    timestamp_ms: int
    state: int
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    last_update_ms: int
    started_at_ms: int | None
    state_since_ms: int
    topics: tuple[tuple[str, int], ...] = ()
    client_transaction_version: int = 0

    def newest_record(self) -> Evidence:
        text = (
            f"newest record: {NAMES[self.state]}, producer id {self.producer_id}, epoch {self.producer_epoch},"
            f" transaction.timeout.ms {self.timeout_ms}"
        )
        return Evidence(self.timestamp_ms, LogPlace(TOPIC, self.partition, self.offset), text)


T = TypeVar("T")


def bounded(
    found: Sequence[T], one: Callable[[T], Observation], count: Callable[[Sequence[T]], int] = len
) -> list[Observation]:
    """Returns an observation for each of the first MOST_IDS items of `found`. All items after these share one
    observation, with the severity and facts of the first item after MOST_IDS. `count`: a function that
    returns the number of problems that the shared observation reports."""
    shown = [one(each) for each in found[:MOST_IDS]]
    behind = found[MOST_IDS:]
    if behind:
        first = one(behind[0])
        assert isinstance(first.facts, SharedFacts), f"{first.kind}: its facts cannot be shared"
        shown.append(
            first._replace(
                subject=Subject(),
                facts=first.facts.shared(count(behind)),
                evidence=tuple(e for each in behind[:3] for e in one(each).evidence[:1]),
                self_heals_at_ms=None,
                log_partition=None,
                ids=count(behind),
                owner=None,
                muted_until_ms=None,
            )
        )
    return shown


def judgeable(ids: Iterable[IdState], context: Context) -> list[IdState]:
    """Returns the ids whose log partition can be judged now."""
    return [transactional_id for transactional_id in ids if transactional_id.partition in context.log.known_until_ms]


def about_id(
    id_state: IdState,
    context: Context,
    *,
    kind: Kind,
    severity: Severity,
    facts: Facts,
    evidence: Iterable[Evidence] = (),
) -> Observation:
    """Returns an observation of the id, with the owner and mute time of its rule, and the consumer groups that wait for
    the id's transaction. `evidence`: further evidence, to come after the evidence of the newest record."""
    observation = Observation(
        kind=kind,
        severity=severity,
        subject=Subject(transactional_id=id_state.transactional_id),
        facts=facts,
        evidence=(id_state.newest_record(), *evidence),
        log_partition=id_state.partition,
        blocked_groups=context.groups.waiting_for(id_state.topics, id_state.producer_id),
    )
    return with_rule(observation, rule_of(id_state, context))


def rule_of(id_state: IdState, context: Context) -> Rule:
    return context.rules.of(id_state.name, (topic for topic, _ in id_state.topics))


def place_of(id_state: IdState, context: Context) -> Place:
    """Returns the log partition with the id's newest record, and the broker that leads this partition. If the id hashes
    to another partition now, also returns that other partition."""
    count = context.log.partition_count
    was_left_behind = is_left_behind(id_state.transactional_id, id_state.partition, count)
    looked_for = coordinator_partition(id_state.transactional_id, count) if was_left_behind else None
    return Place(id_state.partition, context.log.leaders.get(id_state.partition, -1), looked_for)

"""Ids as they stand now: what the rules about conditions look at, and how many of them get a finding of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from service.domain.findings.context import Context, ruled
from service.domain.findings.finding import Evidence, Observation, Subject
from service.domain.findings.rules import Rule
from service.domain.transaction_log.states import NAMES, TOPIC

MOST_IDS: Final = 30
"""Findings of one kind that name an id; the rest share one."""


class IdNow(NamedTuple):
    """The newest record of an id. `topics`: (topic, partition) of its open transaction.

    `state_since_ms`: of a PrepareX the first append; `timestamp_ms` is the newest one.
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

    def newest_record(self) -> Evidence:
        text = (
            f"newest record: {NAMES[self.state]}, producer id {self.producer_id}, epoch {self.producer_epoch},"
            f" transaction.timeout.ms {self.timeout_ms}"
        )
        return Evidence(self.timestamp_ms, f"{TOPIC}-{self.partition}@{self.offset}", text)


T = TypeVar("T")


def bounded(
    found: Sequence[T], one: Callable[[T], Observation], rest: Callable[[Sequence[T]], str]
) -> list[Observation]:
    """An observation for each of the first MOST_IDS, and one more that says in `rest`'s words what comes behind them.

    The rest is as grave as the first of it.
    """
    shown = [one(each) for each in found[:MOST_IDS]]
    behind = found[MOST_IDS:]
    if behind:
        first = one(behind[0])
        evidence = tuple(e for each in behind[:3] for e in one(each).evidence[:1])
        shown.append(
            first._replace(
                subject=Subject(),
                summary=rest(behind),
                evidence=evidence,
                self_heals_at_ms=None,
                log_partition=None,
                ids=len(behind),
                owner=None,
                muted_until_ms=None,
            )
        )
    return shown


def judged(ids: Iterable[IdNow], context: Context) -> list[IdNow]:
    """Those whose log partition can be judged now."""
    return [one for one in ids if one.partition in context.seen_until]


def about(one: IdNow, context: Context, observation: Observation) -> Observation:
    """With what people's rules say of the id, and who waits for it."""
    return ruled(observation, rule_of(one, context))._replace(
        blocked_groups=context.groups.waiting(one.topics, one.producer_id)
    )


def rule_of(one: IdNow, context: Context) -> Rule:
    return context.rules.of(one.name, (topic for topic, _ in one.topics))


def coordinator(one: IdNow, context: Context) -> str:
    """Who has to act."""
    leader = context.leaders.get(one.partition, -1)
    who = f"broker {leader}" if leader >= 0 else "no broker"
    return f"its coordinator ({who}, leader of {TOPIC}-{one.partition})"

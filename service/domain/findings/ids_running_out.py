"""Findings about ids that expire soon if nobody uses them, ids that expired, and ids that run out of epochs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from service.domain.findings.conditions import IdState, bounded, judgeable, with_owner_and_groups
from service.domain.findings.context import Context, with_rule
from service.domain.findings.events import (
    ALL_EVENTS,
    SINGLE_IDS,
    Event,
    Group,
    ReportWindow,
    evidence,
    group_by_subject,
    prefix_of,
)
from service.domain.findings.finding import EVIDENCE_KEPT, Evidence, Observation, Subject
from service.domain.findings.formatting import duration, utc
from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.settling import gap_ms
from service.domain.partitions.facts import LogPlace
from service.domain.transaction_log.causes import CauseCode, Confidence
from service.domain.transaction_log.deadlines import expires_at_ms
from service.domain.transaction_log.states import EXPIRATION_CONFIG, TOPIC
from service.domain.transaction_log.transitions import LAST_EPOCH

SOON_MS: Final = 24 * 3_600_000
_SHARE: Final = 7  # if ids live for less than a week, a seventh of that counts as soon


def soon_ms(expiration_ms: int) -> int:
    """Returns the time (ms) before its expiry from which an id is reported as about to expire."""
    return min(SOON_MS, expiration_ms // _SHARE)


def expiring(ids: Iterable[IdState], context: Context) -> list[Observation]:
    """Returns observations of ids that are about to expire. `ids`: those that expire first."""
    by_prefix: dict[str, list[IdState]] = defaultdict(list)
    for one in judgeable(ids, context):
        by_prefix[prefix_of(one.name)].append(one)
    found: list[list[IdState]] = []
    for some in by_prefix.values():
        found += [some] if len(some) > SINGLE_IDS else [[one] for one in some]
    return bounded(
        found,
        lambda some: _expiring(some, context),
        lambda rest: f"{sum(map(len, rest)):,} more ids expire soon unless they are used",
    )


def _expiring(some: Sequence[IdState], context: Context) -> Observation:
    first = some[0]
    limits = context.log.limits
    expires = expires_at_ms(first.state, first.last_update_ms, limits.expiration_ms) or 0
    assumed = context.log.assumed(EXPIRATION_CONFIG)
    if len(some) == 1:
        subject, name, who = Subject(transactional_id=first.transactional_id), first.name, f"{first.name} expires"
    else:
        name = prefix_of(first.name)
        subject, who = Subject(prefix=name), f"{len(some):,} ids that begin with {name} expire, {first.name} first,"
    due = (
        f"{first.name}: last used {utc(first.last_update_ms)}, kept for {duration(limits.expiration_ms)}{assumed};"
        f" the coordinator removes expired ids every {duration(limits.sweep_ms)}"
    )
    return with_rule(
        Observation(
            kind=Kind.EXPIRING,
            severity=Severity.INFO,
            subject=subject,
            title=f"{who} at {utc(expires)} unless it is used before",
            advice="Any transaction renews it. A producer that still has it open would fail with"
            " INVALID_PRODUCER_ID_MAPPING afterwards and has to be started again. Nothing to do if the id is not used"
            " any more.",
            evidence=(Evidence(first.last_update_ms, LogPlace(TOPIC, first.partition, first.offset), due),),
            confidence=Confidence.LIKELY if assumed else Confidence.CERTAIN,
            log_partition=first.partition if len(some) == 1 else None,
            ids=len(some),
        ),
        context.rules.of(name),
    )


def expiries(events: Iterable[Event]) -> Iterator[Event]:
    """Yields the tombstones that were read."""
    return (e for e in events if e.cause == CauseCode.EXPIRY)


def expired(events: Iterable[Event], context: Context, window: ReportWindow = ALL_EVENTS) -> list[Observation]:
    """Returns an observation for each id or prefix."""
    return [_expired(group, context) for group in group_by_subject(expiries(events), gap_ms(context), window)]


def _expired(group: Group, context: Context) -> Observation:
    return with_rule(
        Observation(
            kind=Kind.EXPIRED,
            severity=Severity.INFO,
            subject=group.subject,
            title=f"{group.label} expired: unused for {duration(context.log.limits.expiration_ms)}"
            f"{context.log.assumed(EXPIRATION_CONFIG)}, removed by the coordinator",
            advice="A producer that still has it open fails with INVALID_PRODUCER_ID_MAPPING at its next transaction:"
            " start it again. If the id is no longer used, nothing has to be done.",
            evidence=tuple(evidence(e, f"{e.name}: tombstone") for e in group.events[-EVIDENCE_KEPT:]),
            log_partition=group.log_partition,
            occurrences=group.occurrences,
        ),
        context.rules.of(group.name),
    )


HIGH_EPOCH_FROM: Final = 30_000
"""Epoch from which an id is reported; clients may have the epochs 0 to 32,766."""


def epoch_exhaustion(ids: Iterable[IdState], context: Context) -> list[Observation]:
    """Returns observations of ids that run out of epochs. `ids`: of the old protocol with an epoch from HIGH_EPOCH_FROM
    on, the highest first."""
    return bounded(
        judgeable(ids, context),
        lambda one: _observe(one, context),
        lambda rest: f"{len(rest):,} more ids have used up most of their epochs",
    )


def _observe(one: IdState, context: Context) -> Observation:
    return with_owner_and_groups(
        one,
        context,
        Observation(
            kind=Kind.EPOCH_EXHAUSTION,
            severity=Severity.WARNING,
            subject=Subject(transactional_id=one.transactional_id),
            title=f"{one.name} has used {one.producer_epoch:,} of the {LAST_EPOCH:,} epochs of its producer id",
            advice="Under the old protocol each start, fence and timeout takes an epoch: find out what makes this id"
            " start so often. A start while it is idle rotates the producer id only from epoch 32,766 on, before that"
            " it takes one more; a fence or timeout in the last epochs can fail on brokers before 4.3."
            " Clients of the new protocol (KIP-890) rotate by themselves.",
            evidence=(one.newest_record(),),
            log_partition=one.partition,
        ),
    )

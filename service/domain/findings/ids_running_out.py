"""Findings about ids that expire soon if nobody uses them, ids that expired, and ids that run out of epochs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from service.domain.findings.conditions import IdState, about_id, bounded, judgeable
from service.domain.findings.context import Context, with_rule
from service.domain.findings.events import (
    SINGLE_IDS,
    Event,
    Group,
    ReportWindow,
    Whose,
    evidence,
    group_by_subject,
    prefix_of,
)
from service.domain.findings.finding import EVIDENCE_KEPT, Evidence, Facts, Observation, SharedFacts, Subject, Words
from service.domain.findings.formatting import assumed_remark, duration, utc
from service.domain.findings.kinds import Kind, Severity
from service.domain.findings.settling import gap_ms
from service.domain.partitions.facts import LogPlace
from service.domain.transaction_log.causes import Confidence
from service.domain.transaction_log.deadlines import expires_at_ms
from service.domain.transaction_log.states import EXPIRATION_CONFIG, TOPIC
from service.domain.transaction_log.transitions import LAST_EPOCH

SOON_MS: Final = 24 * 3_600_000
_SHARE: Final = 7  # if ids live for less than a week, a seventh of that counts as soon


def soon_ms(expiration_ms: int) -> int:
    """Returns the length (ms) of the period before an id's expiry in which the id is reported."""
    return min(SOON_MS, expiration_ms // _SHARE)


def expiring(ids: Iterable[IdState], context: Context) -> list[Observation]:
    """Returns observations of ids that are about to expire. `ids`: the ids that expire first, in the order of their
    expiry."""
    by_prefix: dict[str, list[IdState]] = defaultdict(list)
    for id_state in judgeable(ids, context):
        by_prefix[prefix_of(id_state.name)].append(id_state)
    found: list[list[IdState]] = []
    for some in by_prefix.values():
        found += [some] if len(some) > SINGLE_IDS else [[one] for one in some]
    return bounded(found, lambda some: _expiring(some, context), lambda behind: sum(map(len, behind)))


@dataclass(frozen=True, slots=True)
class ExpiringFacts(SharedFacts):
    """Ids that are about to expire. `first`: the id that expires first, at `expires_ms`."""

    whose: Whose
    first: str
    expires_ms: int

    def words(self, _: Observation, /) -> Words:
        title = f"{self.first} expires at {utc(self.expires_ms)} unless it is used before"
        if self.whose.ids > 1:
            ids = f"{self.whose.ids:,} ids that begin with {self.whose.name}"
            title = f"{ids} expire unless they are used; the first, {self.first}, expires at {utc(self.expires_ms)}"
        return Words(
            self.rest("id expires soon unless it is used", "ids expire soon unless they are used")
            if self.more
            else title,
            "Any transaction renews an id. After the expiry, a producer that still uses the id fails with"
            " INVALID_PRODUCER_ID_MAPPING and has to be started again. Nothing to do if the id is not used any more.",
        )


def _expiring(some: Sequence[IdState], context: Context) -> Observation:
    first = some[0]
    limits = context.log.limits
    expires = expires_at_ms(first.state, first.last_update_ms, limits.expiration_ms) or 0
    is_assumed = context.log.is_assumed(EXPIRATION_CONFIG)
    if len(some) == 1:
        subject, name = Subject(transactional_id=first.transactional_id), first.name
    else:
        name = prefix_of(first.name)
        subject = Subject(prefix=name)
    due = (
        f"{first.name}: last used {utc(first.last_update_ms)}, kept for"
        f" {duration(limits.expiration_ms)}{assumed_remark(EXPIRATION_CONFIG, is_assumed=is_assumed)};"
        f" the coordinator removes expired ids every {duration(limits.sweep_ms)}"
    )
    return with_rule(
        Observation(
            kind=Kind.EXPIRING,
            severity=Severity.INFO,
            subject=subject,
            facts=ExpiringFacts(Whose(name, len(some)), first.name, expires),
            evidence=(Evidence(first.last_update_ms, LogPlace(TOPIC, first.partition, first.offset), due),),
            confidence=Confidence.LIKELY if is_assumed else Confidence.CERTAIN,
            log_partition=first.partition if len(some) == 1 else None,
            ids=len(some),
        ),
        context.rules.of(name),
    )


def expired(expiries: Iterable[Event], context: Context, window: ReportWindow) -> list[Observation]:
    """Returns an observation for each expired id; ids with a common prefix may share one. `expiries`: the tombstones
    that were read."""
    return [_expired(group, context) for group in group_by_subject(expiries, gap_ms(context), window)]


@dataclass(frozen=True, slots=True)
class ExpiredFacts(Facts):
    """Ids that expired because they were unused for `expiration_ms`, which is Kafka's default if `is_assumed`."""

    whose: Whose
    expiration_ms: int
    is_assumed: bool

    def words(self, about: Observation, /) -> Words:
        remark = assumed_remark(EXPIRATION_CONFIG, is_assumed=self.is_assumed)
        return Words(
            f"{self.whose.text(about.subject)} expired: unused for {duration(self.expiration_ms)}{remark}, removed by"
            " the coordinator",
            "A producer that still uses the id fails with INVALID_PRODUCER_ID_MAPPING at its next transaction: start"
            " the producer again. If the id is not used any more, nothing has to be done.",
        )


def _expired(group: Group, context: Context) -> Observation:
    return with_rule(
        Observation(
            kind=Kind.EXPIRED,
            severity=Severity.INFO,
            subject=group.subject,
            facts=ExpiredFacts(
                group.whose, context.log.limits.expiration_ms, context.log.is_assumed(EXPIRATION_CONFIG)
            ),
            evidence=tuple(evidence(e, f"{e.name}: tombstone") for e in group.events[-EVIDENCE_KEPT:]),
            log_partition=group.log_partition,
            occurrences=group.occurrences,
        ),
        context.rules.of(group.whose.name),
    )


HIGH_EPOCH_FROM: Final = 30_000
"""Epoch from which an id is reported; clients may have the epochs 0 to 32,766."""


@dataclass(frozen=True, slots=True)
class EpochFacts(SharedFacts):
    name: str
    producer_epoch: int

    def words(self, _: Observation, /) -> Words:
        return Words(
            self.rest("id has used up most of its epochs", "ids have used up most of their epochs")
            if self.more
            else f"{self.name} has used {self.producer_epoch:,} of the {LAST_EPOCH:,} epochs of its producer id",
            "Under the old protocol each start, fence and timeout takes an epoch: find out whether this id starts"
            " too often. A start while the id is idle assigns a new producer id only from epoch 32,766 on; a start"
            " before that takes one more epoch. A fence or timeout in the last epochs can fail on brokers before 4.3."
            " Clients of the new protocol (KIP-890) get a new producer id without a restart.",
        )


def epoch_exhaustion(ids: Iterable[IdState], context: Context) -> list[Observation]:
    """Returns observations of ids that run out of epochs. `ids`: ids of the old protocol with an epoch of
    HIGH_EPOCH_FROM or above, the highest epoch first."""
    return bounded(judgeable(ids, context), lambda id_state: _epochs(id_state, context))


def _epochs(id_state: IdState, context: Context) -> Observation:
    facts = EpochFacts(id_state.name, id_state.producer_epoch)
    return about_id(id_state, context, kind=Kind.EPOCH_EXHAUSTION, severity=Severity.WARNING, facts=facts)

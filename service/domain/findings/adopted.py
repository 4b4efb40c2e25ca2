"""Findings about records left over from an earlier transaction, about which the marker of the present transaction will
decide: a marker ends everything that its producer id left open on the partition. Also findings about markers that are
not replicated yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from service.domain.findings.finding import Evidence, Facts, Observation, Words
from service.domain.findings.formatting import utc
from service.domain.findings.hanging import Case, owner_evidence
from service.domain.findings.kinds import CRITICAL_AFTER_MS, Kind, Severity
from service.domain.findings.rules import Rules
from service.domain.partitions.facts import LogPlace

_OF_NOTHING: Final = (
    "The left-over records will be committed or aborted with the present transaction. Whether they belong to a"
    " committed transaction is not proven. If they do, an abort of the present transaction destroys them: do not end"
    " the present transaction by hand. If it commits, consumers read the left-over records as if they belonged to it:"
    " look for duplicates, and check what the producer sends after the end of a transaction."
)
_OF_COMMITTED: Final = (
    "The left-over records belong to a transaction that was committed. An abort of the present transaction destroys"
    " them; a commit keeps them. Do not stop the producer, and do not end the present transaction by hand."
)


@dataclass(frozen=True, slots=True)
class AdoptedFacts(Facts):
    """Records of the id `name` that are left over from an earlier transaction. `is_committed`: the records are proven
    to belong to a committed transaction whose marker was never written."""

    name: str
    is_committed: bool

    def words(self, about: Observation, /) -> Words:
        topic, partition, *_ = about.subject
        return Words(
            f"{topic}-{partition}: records of {self.name} that begin at offset {about.subject.start_offset} are older"
            " than its present transaction, and will be committed or aborted with it",
            _OF_COMMITTED if self.is_committed else _OF_NOTHING,
        )


@dataclass(frozen=True, slots=True)
class UnreplicatedFacts(Facts):
    """A marker that is written but not replicated yet. Until the marker is replicated, the entry that it ends
    still pins the LSO. `name`: the transactional.id of the marker; None if not known."""

    name: str | None
    last_stable_offset: int

    def words(self, about: Observation, /) -> Words:
        subject = about.subject
        place = f"{subject.topic}-{subject.partition}"
        name = self.name or f"producer id {subject.producer_id}"
        return Words(
            f"{place}: the marker of {name} for offset {subject.start_offset} is written but not replicated",
            f"This transaction does not hang. Bring the replicas of {place} back in sync (check its ISR and"
            " min.insync.replicas): the LSO moves on when they have the marker. Do not write another marker.",
            f"read_committed consumers stop at {self.last_stable_offset}",
        )


def adopted(case: Case, rules: Rules, *, is_committed: bool) -> Observation:
    """Returns the observation of an entry that is older than the transaction that will end it. `is_committed`: as in
    AdoptedFacts."""
    entry, owner = case.entry, case.owner
    assert owner is not None  # an adopted entry has an owner
    rule = rules.of(case.name or "", (entry.topic,))
    return Observation(
        kind=Kind.ADOPTED,
        severity=Severity.CRITICAL if is_committed else Severity.WARNING,
        subject=case.subject,
        facts=AdoptedFacts(case.name or "", is_committed),
        evidence=(
            *owner_evidence(case),
            Evidence(
                entry.first_seen_ms,
                LogPlace(entry.topic, entry.partition, entry.start_offset),
                f"the records were already open then; the present transaction began at {utc(owner.record.start_ms)}",
            ),
        ),
        log_partition=owner.log_partition,
        owner=rule.owner,
        muted_until_ms=rule.mute_until_ms,
        blocked_groups=case.groups,
    )


def unreplicated(case: Case, rules: Rules, now_ms: int) -> Observation:
    """Returns the observation of an entry whose marker is not replicated yet: the LSO does not move although the leader
    lists nothing open there."""
    entry = case.entry
    rule = rules.of(case.name or "", (entry.topic,))
    is_long = now_ms - entry.first_seen_ms >= CRITICAL_AFTER_MS
    return Observation(
        kind=Kind.UNREPLICATED,
        severity=Severity.CRITICAL if is_long else Severity.WARNING,
        subject=case.subject,
        facts=UnreplicatedFacts(case.name, case.last_stable_offset),
        evidence=(
            *owner_evidence(case),
            Evidence(
                entry.seen_at_ms,
                "DescribeProducers",
                f"lists nothing open at offset {case.last_stable_offset} or below, but the LSO has been stalled there"
                f" since {utc(entry.first_seen_ms)}",
            ),
        ),
        owner=rule.owner,
        muted_until_ms=rule.mute_until_ms,
        blocked_groups=case.groups,
    )

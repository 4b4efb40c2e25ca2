"""Finds the cause of each stall, and the consumer groups that wait because of the stall. A finding about a group is as
severe as the confirmed finding about the transaction that blocks the group. If there is no such finding, the relation
of the transaction's entry sets the severity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from service.domain.findings.blocked_group import NOT_READ, BlockedGroupFacts, Doubt, StallCause
from service.domain.findings.catalogue import REPORTING
from service.domain.findings.conditions import bounded
from service.domain.findings.context import Context, with_rule
from service.domain.findings.finding import Evidence, Finding, Key, Observation, Subject
from service.domain.findings.kinds import Kind, Severity, Status
from service.domain.findings.open_too_long import LONG_AFTER_MS
from service.domain.partitions.blocked_groups import AffectedGroup, GroupRelation
from service.domain.partitions.facts import LogPlace, TopicPartition
from service.domain.partitions.open_entries import Entry, Relation, RelationKind
from service.domain.transaction_log.causes import Confidence
from service.domain.transaction_log.deadlines import abort_due_at_ms

_SEVERITIES: Final = {RelationKind.HANGING: Severity.CRITICAL, RelationKind.OPEN: Severity.INFO}

COMMIT_EXPECTED_MS: Final = 6_000
"""A group that makes progress commits an offset within this time: by default every 5 s (auto.commit.interval.ms)."""


class Blocker(NamedTuple):
    """An entry on a partition, its relation, and its transactional.id as text (None: no id is known)."""

    entry: Entry
    relation: Relation
    name: str | None


class FoundCause(NamedTuple):
    """The cause of a stall, with the severity of findings about the groups that wait because of the stall.
    `owner_name`: the id whose rules apply; "" if no id is known."""

    cause: StallCause
    severity: Severity
    owner_name: str


class StallCauses:
    """Finds the causes of stalls. `known`: the findings so far, of which only confirmed ones count."""

    def __init__(self, known: Mapping[Key, Finding], context: Context) -> None:
        self._known, self._context = known, context
        self._entry_findings = {
            (kind, s.topic, s.partition, s.start_offset, s.producer_id): finding
            for (kind, s), finding in known.items()
            if finding.status == Status.CONFIRMED and s.start_offset is not None
        }

    def of(self, blocker: Blocker) -> FoundCause:
        relation, owner = blocker.relation.kind, blocker.relation.owner
        heals_at_ms = None
        if relation == RelationKind.OPEN and owner is not None:
            scan_ms = self._context.log.limits.scan_ms
            heals_at_ms = abort_due_at_ms(owner.state, owner.record.start_ms, owner.record.timeout_ms, scan_ms)
        finding = self._finding(blocker)
        name = blocker.name or f"producer id {blocker.entry.producer_id}"
        has_finding = relation == RelationKind.HANGING or finding is not None
        return FoundCause(
            StallCause(relation, name, heals_at_ms, has_finding),
            _SEVERITIES.get(relation, Severity.WARNING) if finding is None else finding.severity,
            blocker.name or "",
        )

    def worst_of(self, blockers: Sequence[Blocker]) -> FoundCause:
        """Returns the worst cause, for a group that may wait for any of several entries. If there are no entries, the
        cause is NOT_READ."""
        if not blockers:
            return FoundCause(NOT_READ, Severity.WARNING, "")
        worst = min(map(self.of, blockers), key=lambda cause: cause.severity.rank)
        if len(blockers) == 1:
            return worst
        return worst._replace(cause=replace(worst.cause, among=len(blockers), heals_at_ms=None))

    def _finding(self, blocker: Blocker) -> Finding | None:
        entry, owner = blocker.entry, blocker.relation.owner
        kind = REPORTING.get(blocker.relation.kind)
        if kind is None:
            return None
        found = self._entry_findings.get((kind, *entry.topic_partition, entry.start_offset, entry.producer_id))
        if found is None and owner is not None:
            found = self._known.get((kind, Subject(transactional_id=owner.transactional_id)))
        return found if found is not None and found.status == Status.CONFIRMED else None


def blocked_groups(
    affected_groups: Iterable[AffectedGroup],
    blockers: Mapping[TopicPartition, Sequence[Blocker]],
    known: Mapping[Key, Finding],
    context: Context,
    as_of_ms: int,
) -> list[Observation]:
    """Returns observations of blocked groups whose offset has not moved for COMMIT_EXPECTED_MS. For a pending offset,
    the time before the stall counts, too. Leaves out groups that still read and will stop later. `known`: the findings
    so far; the confirmed findings describe the blocking transactions.

    A group is reported at once if the transaction that blocks it has a finding of its own. Otherwise (the transaction
    is within its timeout, or cannot be judged) the group is reported once the partition has been stalled for
    LONG_AFTER_MS."""
    causes = StallCauses(known, context)
    found = []
    for affected in affected_groups:
        waits = affected.is_blocked and affected.relation != GroupRelation.WILL_STOP
        unchanged_ms = affected.offset.unchanged_ms if affected.is_pending else affected.waits_ms
        if waits and unchanged_ms >= COMMIT_EXPECTED_MS:
            behind = _blockers(affected, blockers.get(affected.stalled_partition, ()))
            found_cause = causes.worst_of(behind)
            if found_cause.cause.has_finding or as_of_ms - affected.stalled_since_ms >= LONG_AFTER_MS:
                found.append((affected, found_cause, _hold_evidence(affected, found_cause.cause, behind)))
    found.sort(key=lambda one: (one[1].severity.rank, one[0].key))
    return bounded(found, lambda one: _observe(*one, context))


def _blockers(affected: AffectedGroup, blockers: Iterable[Blocker]) -> list[Blocker]:
    """Returns the entries that the group may wait for. On a data partition, only the first entry is returned, which
    holds the LSO. For a pending offset, only the entry of the transaction that contains the offset is returned. If the
    batches with the offset could not be read, all entries are returned, because no Kafka request reports which
    transaction contains the offset."""
    in_order = sorted(blockers, key=lambda blocker: blocker.entry.start_offset)
    if affected.waits_for_producer_id is not None:
        return [blocker for blocker in in_order if blocker.entry.producer_id == affected.waits_for_producer_id]
    return in_order if affected.is_pending else in_order[:1]


def _hold_evidence(affected: AffectedGroup, cause: StallCause, blockers: Sequence[Blocker]) -> Evidence:
    if affected.waits_for_producer_id is not None and blockers:
        entry = blockers[0].entry
        text = f"{cause.text} has been open there since then; its records commit the offset"
        return Evidence(entry.first_seen_ms, LogPlace(*affected.stalled_partition, entry.start_offset), text)
    text = f"the LSO has been stalled there since then, below the high watermark; {cause.text} holds it"
    return Evidence(affected.stalled_since_ms, LogPlace(*affected.stalled_partition, affected.stalled_lso), text)


def _observe(affected: AffectedGroup, found: FoundCause, hold: Evidence, context: Context) -> Observation:
    group, topic, partition = affected.key
    facts = BlockedGroupFacts(
        affected.relation == GroupRelation.UNSTABLE_OFFSETS,
        affected.stalled_partition,
        affected.stalled_lso,
        found.cause,
        _doubt(affected),
    )
    source = "OffsetFetch" if affected.offset.isolation is None else "DescribeShareGroupOffsets"
    observation = Observation(
        kind=Kind.BLOCKED_GROUP,
        severity=found.severity,
        subject=Subject(group=group, topic=topic, partition=partition),
        facts=facts,
        evidence=(hold, Evidence(affected.offset.unchanged_since_ms, source, _committed(affected))),
        confidence=affected.confidence,
        self_heals_at_ms=found.cause.heals_at_ms,
    )
    return with_rule(observation, context.rules.of(found.owner_name, (topic,)))


def _doubt(affected: AffectedGroup) -> Doubt | None:
    offset = affected.offset.committed_offset
    if affected.relation == GroupRelation.UNSTABLE_OFFSETS:
        return None
    if offset < 0:
        return Doubt.NO_OFFSET
    if offset > affected.stalled_lso and affected.offset.isolation is None:
        return Doubt.ABOVE_THE_LSO
    if affected.confidence != Confidence.CERTAIN and affected.offset.isolation is None:
        return Doubt.LEVEL_NOT_REPORTED
    return None


def _committed(affected: AffectedGroup) -> str:
    group_offset = affected.offset
    name = "committed offset" if group_offset.isolation is None else "start offset"
    what = f"no {name}" if group_offset.committed_offset < 0 else f"{name} {group_offset.committed_offset}"
    reads = "" if group_offset.isolation is None else f", share.isolation.level {group_offset.isolation}"
    return what + (", another offset pending" if group_offset.is_unstable else "") + ", the same since then" + reads

"""Describes why a partition is stalled: what is open there, how severe that is, and when it heals by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from service.domain.findings.catalogue import REPORTING
from service.domain.findings.context import Context
from service.domain.findings.finding import Finding, Key, Subject
from service.domain.findings.kinds import Severity, Status
from service.domain.partitions.open_entries import Entry, Relation, RelationKind
from service.domain.transaction_log.deadlines import abort_due_at_ms

_SEVERITIES: Final = {RelationKind.HANGING: Severity.CRITICAL, RelationKind.OPEN: Severity.INFO}

_WHAT: Final = {
    RelationKind.OPEN: "the open transaction of {}",
    RelationKind.OVERDUE: "the overdue transaction of {}",
    RelationKind.COMPLETING: "the transaction of {}, which is decided but not complete,",
    RelationKind.ADOPTED: "stale records of {}",
    RelationKind.UNREPLICATED_MARKER: "the transaction of {}, whose marker is not replicated yet,",
    RelationKind.HANGING: "the hanging transaction of {}",
    RelationKind.UNKNOWN: "a transaction of {}",
}


class Blocker(NamedTuple):
    """An entry on a partition, its relation, and its id as people read it (None: no id is known)."""

    entry: Entry
    relation: Relation
    name: str | None

    @property
    def display_name(self) -> str:
        return self.name or f"producer id {self.entry.producer_id}"


class StallCause(NamedTuple):
    """The cause of a stall. `has_finding`: a confirmed finding reports it. `owner_name`: the id whose rules apply."""

    text: str
    severity: Severity
    heals_at_ms: int | None
    has_finding: bool
    is_legal: bool
    owner_name: str


NOT_READ: Final = StallCause("a transaction that has not been read yet", Severity.WARNING, None, False, False, "")


class StallCauses:
    """Finds causes. `known`: findings; the confirmed ones among them set the severity."""

    def __init__(self, known: Mapping[Key, Finding], context: Context) -> None:
        self._known, self._context = known, context
        self._entry_findings = {
            (kind, s.topic, s.partition, s.start_offset, s.producer_id): finding
            for (kind, s), finding in known.items()
            if finding.status == Status.CONFIRMED and s.start_offset is not None
        }

    def of(self, blocker: Blocker) -> StallCause:
        relation, owner = blocker.relation.kind, blocker.relation.owner
        heals_at_ms = None
        if relation == RelationKind.OPEN and owner is not None:
            scan_ms = self._context.log.limits.scan_ms
            heals_at_ms = abort_due_at_ms(owner.state, owner.record.start_ms, owner.record.timeout_ms, scan_ms)
        finding = self._finding(blocker)
        return StallCause(
            text=_WHAT[relation].format(blocker.display_name),
            severity=_SEVERITIES.get(relation, Severity.WARNING) if finding is None else finding.severity,
            heals_at_ms=heals_at_ms,
            has_finding=relation == RelationKind.HANGING or finding is not None,
            is_legal=relation == RelationKind.OPEN,
            owner_name=blocker.name or "",
        )

    def _finding(self, blocker: Blocker) -> Finding | None:
        entry, owner = blocker.entry, blocker.relation.owner
        kind = REPORTING.get(blocker.relation.kind)
        if kind is None:
            return None
        found = self._entry_findings.get((kind, *entry.topic_partition, entry.start_offset, entry.producer_id))
        if found is None and owner is not None:
            found = self._known.get((kind, Subject(transactional_id=owner.transactional_id)))
        return found if found is not None and found.status == Status.CONFIRMED else None


def worst_of(causes: Sequence[StallCause]) -> StallCause:
    """Returns the worst cause, for a group that may wait for any of several entries."""
    worst = min(causes, key=lambda one: tuple(Severity).index(one.severity))
    text = f"one of {len(causes)} open transactions there, at worst {worst.text}"
    return worst._replace(text=text, heals_at_ms=None)

"""Begins the case of an entry. The entry is open in the store, or there is a finding about it from before a restart."""

from __future__ import annotations

from collections.abc import Mapping

from service.domain.findings.context import Context
from service.domain.findings.finding import Finding, Subject
from service.domain.findings.hanging import HangingFacts, entry_identity, subject_of
from service.domain.partitions.open_entries import Entry, Relation, RelationKind, is_left_behind
from service.domain.partitions.state import PartitionState
from service.domain.reasons.hanging import HangReason
from service.domain.worlds.order import decode
from service.domain.worlds.verdict import Decided, Verdict, World, undecided
from service.views.partitions.judged import JudgedEntry
from spark_jobs.judge.ended_transactions import EarlierOwner, may_have_grown
from spark_jobs.judge.hanging_case import HangingCase


def new_case(
    row: PartitionState,
    entry: Entry,
    relation: Relation,
    now_ms: int,
    findings: Mapping[Subject, Finding],
    *,
    has_log: bool,
) -> HangingCase:
    """Returns a new case. `findings`: the open findings. If one of them is about this entry, the case gets the decision
    of that finding. The case also gets its subject, except if only the new case knows a transactional.id, and the log
    can be read. The two subjects may differ in the epoch, because a later writer may have raised the epoch."""
    is_first = entry.start_offset == row.last_stable_offset
    case = HangingCase(
        entry=entry,
        owner=relation.holder,
        subject=subject_of(entry, relation.owner),
        topic_id=row.topic_id,
        stalled_since_ms=row.stalled_since_ms if is_first else None,
        samples=decode(row.samples),
        log_start=row.log_start,
        last_stable_offset=row.last_stable_offset,
        high_watermark=row.high_watermark,
        begun_ms=now_ms,
    )
    place = entry_identity(case.subject)
    for subject, finding in findings.items():
        if entry_identity(subject) == place:
            recall(case, finding)
            if not has_log or subject.transactional_id is not None or case.subject.transactional_id is None:
                case.subject = subject
    if not has_log:
        continue_without_log(case)
    return case


def case_of_finding(finding: Finding, now_ms: int, *, has_log: bool) -> HangingCase:
    """Returns the case of an entry that hung before a restart, and for which `new_case` has made no case. Whether the
    entry has ended since, and how, is not known yet."""
    subject = finding.subject
    start = subject.start_offset or 0
    entry = Entry(
        subject.topic or "",
        subject.partition or 0,
        subject.producer_id or 0,
        subject.producer_epoch or 0,
        start,
        coordinator_epoch=-1,
        last_timestamp_ms=-1,
        records=None,
        bytes=None,
        first_seen_ms=now_ms,
        seen_at_ms=now_ms,
    )
    case = HangingCase(entry, None, subject, "", None, (), -1, -1, high_watermark=start, begun_ms=now_ms)
    recall(case, finding)
    if not has_log:
        continue_without_log(case)
    return case


def recall(case: HangingCase, finding: Finding) -> None:
    """Sets the decision of the case to that of a finding from before a restart, in three cases: the finding has a
    contradiction, its decision is known, or its entry holds committed records. Compares the case's owner with that of
    the finding, because the entry may have grown since."""
    seen = finding.observation
    case.reported_owner = EarlierOwner.in_finding(finding)
    if case.owner is not None and may_have_grown(case.entry, case.reported_owner, case.owner):
        case.grown_ms = case.begun_ms
    if finding.contradiction is not None:
        case.decision = case.decision.recalled(undecided(finding.contradiction))
    elif seen.decision not in (None, Decided.UNKNOWN) and seen.possible:
        known = Verdict(frozenset(seen.possible), seen.decision, seen.proofs, None, leader_changed=True)
        case.decision = case.decision.recalled(known)
    elif isinstance(seen.facts, HangingFacts) and seen.facts.holds_committed and isinstance(seen.reason, HangReason):
        committed = Verdict(
            frozenset(World), Decided.UNKNOWN, seen.proofs, seen.reason.decided_by, holds_committed=True
        )
        case.decision = case.decision.recalled(committed)


def continue_without_log(case: HangingCase) -> None:
    """Continues the case without the transaction log. The subject stays, and may name an id that is hidden by now."""
    case.has_log, case.owner = False, None
    case.decision = case.decision.without_log()


def as_coordinated(judged_entry: JudgedEntry, context: Context) -> JudgedEntry:
    """Returns the entry with its relation. If the entry's transaction was left behind in the transaction log, and some
    coordinator may still know that transaction, `is_unowned` of the relation becomes False, so that no case begins yet.
    Otherwise returns both unchanged."""
    entry, relation = judged_entry.entry, judged_entry.relation
    holder = relation.holder
    if holder is None or not is_left_behind(entry, holder) or relation.kind != RelationKind.UNKNOWN:
        return judged_entry
    is_gone = (holder.transactional_id, entry.producer_id) in context.uncoordinated
    return judged_entry._replace(relation=relation._replace(is_unowned=relation.is_unowned and is_gone))

"""Begins the case of an open entry: one that was just seen, or that a finding of before a restart is about."""

from __future__ import annotations

from collections.abc import Mapping

from service.domain.findings.finding import Finding, Subject
from service.domain.findings.hanging import entry_identity, subject_of
from service.domain.partitions.open_entries import Entry, Relation
from service.domain.partitions.state import PartitionState
from service.domain.worlds.order import decode
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
    """Returns a new case. `findings`: the open ones; one of them may be about the entry, from before a restart."""
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
            case.recall(finding)
    if not has_log:
        case.continue_without_log(findings)
    return case


def case_of_finding(finding: Finding, now_ms: int, *, has_log: bool) -> HangingCase:
    """Returns the case of an entry that hung before a restart and is not in the store now. Its end is yet unknown."""
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
    case.recall(finding)
    if not has_log:
        case.continue_without_log(())
    return case

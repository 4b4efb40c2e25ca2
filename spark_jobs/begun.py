"""How a case begins: with an entry that is seen open, or one that hung before a restart."""

from __future__ import annotations

from collections.abc import Mapping

from service.domain.findings.finding import Finding, Subject
from service.domain.findings.hanging import entry_place, subject_of
from service.domain.partitions.open_entries import Entry, Relation
from service.domain.worlds.order import decode
from service.store.queries.partitions import PartitionRow
from spark_jobs.judge.hanging_case import OpenCase


def begun(
    row: PartitionRow, entry: Entry, relation: Relation, now_ms: int, open_: Mapping[Subject, Finding]
) -> OpenCase:
    """`open_`: findings; maybe there is one of it from before a restart."""
    is_first = entry.start_offset == row.last_stable_offset
    case = OpenCase(
        entry=entry,
        owner=relation.owner,
        subject=subject_of(entry, relation.owner),
        topic_id=row.topic_id,
        stalled_since_ms=row.stalled_since_ms if is_first else None,
        samples=decode(row.samples),
        log_start=row.log_start,
        last_stable_offset=row.last_stable_offset,
        high_watermark=row.high_watermark,
        begun_ms=now_ms,
    )
    place = entry_place(case.subject)
    for subject, finding in open_.items():
        if entry_place(subject) == place:
            case.recall(finding)
    return case


def recalled(subject: Subject, now_ms: int, open_: Mapping[Subject, Finding]) -> OpenCase:
    """What hung before a restart and is not in the store now: how it ended is still to be told."""
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
    case = OpenCase(entry, None, subject, "", None, (), -1, -1, high_watermark=start, begun_ms=now_ms)
    case.recall(open_[subject])
    return case

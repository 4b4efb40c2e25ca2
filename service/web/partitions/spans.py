"""Draws a stalled partition as spans and pins of the ruler, from the store alone: Kafka is not asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from service.domain.partitions.blocked_groups import AffectedGroup, GroupRelation
from service.domain.partitions.open_entries import RelationKind
from service.store.escaped_text import display_id
from service.views import words
from service.views.addresses import transaction_page
from service.views.partitions.judged import JudgedEntry, JudgedPartition
from service.web.charts.ruler import Ruler, draw
from service.web.charts.ruler_scale import FREE, HANGING, OPEN, SOON, Pin, Span
from service.web.charts.ruler_scale import STOPPED as STANDS

RELATION_WORDS: Final = {
    RelationKind.OPEN: "open, within its timeout",
    RelationKind.OVERDUE: "overdue",
    RelationKind.COMPLETING: "completing",
    RelationKind.ADOPTED: "adopted records",
    RelationKind.UNREPLICATED_MARKER: "marker not replicated",
    RelationKind.HANGING: "hanging",
    RelationKind.UNKNOWN: "open, owner unknown",
}
GROUP_WORDS: Final = {
    GroupRelation.STOPPED: "stopped",
    GroupRelation.WILL_STOP: "will stop",
    GroupRelation.UNSTABLE_OFFSETS: "cannot fetch its offsets",
    GroupRelation.READS_UNCOMMITTED: "reads uncommitted",
    GroupRelation.INACTIVE: "inactive",
    GroupRelation.UNKNOWN: "unknown",
}


def ruler_of(judged: JudgedPartition, victims: Iterable[AffectedGroup], cluster: str) -> Ruler | None:
    """Returns the ruler of the partition; None if the partition never answered or its log is empty. `victims`: the
    groups; those of other partitions are ignored."""
    row = judged.row
    if row.answered_at_ms is None:
        return None
    ends = [*(one.entry.start_offset for one in judged.entries[1:]), row.high_watermark]
    spans = [_span(one, row.log_start, end, cluster) for one, end in zip(judged.entries, ends, strict=False)]
    place = row.topic, row.partition
    here = [one for one in victims if (one.offset.topic, one.offset.partition) == place]
    pins = [_pin(one) for one in here if one.offset.committed_offset >= 0]
    return draw(row.log_start, row.last_stable_offset, row.high_watermark, spans, pins)


def _span(one: JudgedEntry, log_start: int, end: int, cluster: str) -> Span:
    """Returns the span of an open entry. Only its first offset is known to be its own; its `records` may lie among
    those of others."""
    entry, owner = one.entry, one.relation.owner
    first = max(entry.start_offset, log_start)
    return Span(
        first=first,
        next=max(min(first + max(entry.records or 1, 1), end), first + 1),
        kind=HANGING if one.relation.kind == RelationKind.HANGING else OPEN,
        who=f"producer id {entry.producer_id}" if owner is None else display_id(owner.transactional_id),
        word=RELATION_WORDS[one.relation.kind],
        size="" if entry.records is None else words.plural(entry.records, "record"),
        href=None if owner is None else transaction_page(cluster, owner.transactional_id),
        ended="never" if one.relation.kind == RelationKind.HANGING else "not yet",
        begins=True,
    )


def _pin(one: AffectedGroup) -> Pin:
    offset = one.offset.committed_offset
    if one.relation == GroupRelation.WILL_STOP:
        to_go = max(one.stalled_lso - offset, 0)
        return Pin(offset, one.offset.group, SOON, f"will stop, {words.plural(to_go, 'offset')} to go")
    if one.relation == GroupRelation.READS_UNCOMMITTED:
        return Pin(offset, one.offset.group, FREE, "reads uncommitted, not blocked")
    if one.relation == GroupRelation.UNKNOWN:
        return Pin(offset, one.offset.group, FREE, "not known to wait")
    if one.relation == GroupRelation.INACTIVE:
        return Pin(offset, one.offset.group, FREE, "inactive, no members")
    return Pin(
        offset,
        one.offset.group,
        STANDS,
        "stopped here" if one.relation == GroupRelation.STOPPED else "cannot fetch offsets",
    )

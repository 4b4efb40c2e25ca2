"""The page of one partition: its ends, its open transactions, the waiting groups, and the explanation of an offset."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, Final, NamedTuple

from fastapi import APIRouter, Path, Request, Response
from sqlalchemy import Connection

from service.api.http.answers import REFRESH, KeptRoute, note_question_to_kafka
from service.api.http.kafka import explained
from service.api.http.problems import NO_SUCH_PARTITION, ProblemError
from service.api.http.state import state_of
from service.domain.findings.finding import Finding
from service.domain.findings.outlook import outlook_of
from service.domain.partitions.blocked_groups import AffectedGroup, GroupRelation
from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.open_entries import RelationKind
from service.domain.transaction_log.causes import Confidence
from service.store.escaped_text import display_id, printable
from service.store.queries import findings as read_findings
from service.store.queries import partitions
from service.store.queries.findings import FindingSelection
from service.store.queries.partitions import read_affected_groups
from service.views import words
from service.views.addresses import transaction_page
from service.views.cluster.frame import NEVER, READING, UNKNOWN, Frame, Freshness
from service.views.cluster.verdict import Verdict
from service.views.partitions.blocking_chain import Link, waiting_first
from service.views.partitions.judged import JudgedEntry, JudgedPartition, judge
from service.views.partitions.offsets import ExplainedOffsets
from service.web.charts.ruler import Ruler, draw
from service.web.charts.ruler_scale import FREE, HANGING, OPEN, SOON, Pin, Span
from service.web.charts.ruler_scale import STOPPED as STANDS
from service.web.partitions.partition_list import read_links
from service.web.shared.frame import framed
from service.web.shared.render import render

RELATION_WORDS: Final = {
    RelationKind.OPEN: "open, not overdue",
    RelationKind.OVERDUE: "overdue",
    RelationKind.COMPLETING: "completing",
    RelationKind.ADOPTED: "adopted records",
    RelationKind.UNREPLICATED_MARKER: "marker not replicated",
    RelationKind.HANGING: "hanging",
    RelationKind.UNKNOWN: "open, not judged",
}


def ruler_of(judged: JudgedPartition, affected: Iterable[AffectedGroup], cluster: str) -> Ruler | None:
    """Returns the ruler of the partition; None if the partition never answered, or if its log is empty or has an
    unknown start. `affected`: the affected groups; groups of other partitions are ignored."""
    row = judged.row
    if row.answered_at_ms is None:
        return None
    ends = [*(entry.entry.start_offset for entry in judged.entries[1:]), row.high_watermark]
    spans = [_span(entry, row.log_start, end, cluster) for entry, end in zip(judged.entries, ends, strict=False)]
    here = [group for group in affected if group.offset.topic_partition == row.topic_partition]
    pins = [_pin(group, group.committed) for group in here if group.committed is not None]
    return draw(row.log_start, row.last_stable_offset, row.high_watermark, spans, pins)


def _span(judged_entry: JudgedEntry, log_start: int, end: int, cluster: str) -> Span:
    """Returns the span of an open entry. Only the first offset of the span is known to belong to the entry: the entry's
    other records may lie among those of other producers."""
    entry, owner = judged_entry.entry, judged_entry.relation.owner
    first = max(entry.start_offset, log_start)
    return Span(
        first=first,
        next=max(min(first + max(entry.records or 1, 1), end), first + 1),
        kind=HANGING if judged_entry.relation.kind == RelationKind.HANGING else OPEN,
        who=f"producer id {entry.producer_id}" if owner is None else display_id(owner.transactional_id),
        word=RELATION_WORDS[judged_entry.relation.kind],
        size="" if entry.records is None else words.plural(entry.records, "record"),
        href=None if owner is None else transaction_page(cluster, owner.transactional_id),
        ended="never" if judged_entry.relation.kind == RelationKind.HANGING else "not yet",
        begins=True,
    )


_PINS: Final = {
    GroupRelation.STOPPED: (STANDS, "stopped here"),
    GroupRelation.UNSTABLE_OFFSETS: (STANDS, "unstable offsets"),
    GroupRelation.READS_UNCOMMITTED: (FREE, "reads uncommitted"),
    GroupRelation.UNKNOWN: (FREE, "not known to wait"),
    GroupRelation.INACTIVE: (FREE, "inactive, no members"),
}
_BY_PROGRESS: Final = (GroupRelation.STOPPED, GroupRelation.READS_UNCOMMITTED)


def _pin(group: AffectedGroup, offset: int) -> Pin:
    if group.to_go is not None:
        return Pin(offset, group.offset.group, SOON, f"will probably stop, {words.plural(group.to_go, 'offset')} to go")
    kind, note = _PINS[group.relation]
    is_guess = group.relation in _BY_PROGRESS and group.confidence == Confidence.LIKELY
    return Pin(offset, group.offset.group, kind, f"probably {note}" if is_guess else note)


FINDINGS_SHOWN: Final = 20
ENTRIES_SHOWN: Final = 200
GROUPS_SHOWN: Final = 200
SPANS_SHOWN: Final = 200

router = APIRouter(route_class=KeptRoute, include_in_schema=False)


class _Seen(NamedTuple):
    """A partition as the store has it. `judged`: None if the partition is not watched; `link`: None if the partition is
    not stalled; `ruler`: None if it is not stalled, or if there is nothing to draw."""

    judged: JudgedPartition | None
    link: Link | None
    groups: Sequence[AffectedGroup]
    findings: Sequence[Finding]
    ruler: Ruler | None


@router.get("/clusters/{cluster}/partitions/{topic}/{partition}")
def get_partition(
    request: Request,
    cluster: str,
    topic: str,
    partition: Annotated[int, Path(ge=0, lt=2**31)],
    offset: str = "",
    to: str = "",
) -> Response:
    """Returns the page. For an offset that cannot be explained, the page gives the reason, with status 422 if the typed
    offsets are invalid. 404 if the store does not know the cluster, or if the partition is not watched and the request
    names no offset."""
    wanted = asked(offset, to)
    with framed(request, cluster) as (connection, frame):
        seen = _seen(connection, frame, topic, partition)
    if seen.judged is None and not (offset or to):
        named = f"{printable(topic)[:249]}-{partition}"
        raise ProblemError(404, NO_SUCH_PARTITION, f"partition {named!r} of cluster {frame.name!r} is not watched")
    # Kafka is asked when somebody opens the page: not when the page refreshes itself, nor while the store is held
    answer = None if REFRESH in request.headers else _explanation(request, frame, (topic, partition), wanted)
    open_ = () if seen.judged is None else seen.judged.entries
    name = f"{printable(topic)}-{partition}"
    return render(
        "one_partition.html",
        frame,
        page="partitions",
        status=422 if answer is not None and wanted.mistake is not None else 200,
        topic=topic,
        partition=partition,
        place=name,
        verdict=partition_verdict(frame.freshness, name, seen.judged, seen.link),
        judged=seen.judged,
        link=seen.link,
        open=open_[:ENTRIES_SHOWN],
        outlook=partial(outlook_of, limits=frame.limits),
        more_open=max(len(open_) - ENTRIES_SHOWN, 0),
        groups=seen.groups[:GROUPS_SHOWN],
        more_groups=max(len(seen.groups) - GROUPS_SHOWN, 0),
        stopped=sum(row.is_blocked and row.to_go is None for row in seen.groups),
        will_stop=sum(row.to_go is not None for row in seen.groups),
        findings=seen.findings,
        drawing=seen.ruler,
        answer=answer,
        spans_shown=SPANS_SHOWN,
        wanted=wanted,
    )


def _seen(connection: Connection, frame: Frame, topic: str, partition: int) -> _Seen:
    row = partitions.find(connection, frame.cluster.id, topic, partition)
    if row is None:
        return _Seen(None, None, (), (), None)
    place = topic, partition
    affected = read_affected_groups(connection, frame.cluster.id)
    (judged,) = judge(connection, frame.cluster.id, [row])
    link = None
    if row.stalled_since_ms is not None:
        (link,) = read_links(connection, frame, [judged], affected)
    findings, _ = read_findings.read_page(
        connection, frame.cluster.id, FindingSelection(topic=topic, partition=partition), None, FINDINGS_SHOWN
    )
    here = [group for group in affected if place in (group.offset.topic_partition, group.stalled_partition)]
    ruler = None if link is None else ruler_of(judged, affected, frame.name)
    return _Seen(judged, link, waiting_first(here), findings, ruler)


class Answer(NamedTuple):
    """The answer to a question about offsets. `explained`: the explanation, if there is one. `problem`: otherwise, one
    sentence on why there is none."""

    explained: ExplainedOffsets | None = None
    problem: str | None = None


def _explanation(request: Request, frame: Frame, place: TopicPartition, wanted: Asked) -> Answer | None:
    if wanted.mistake is not None:
        return Answer(problem=wanted.mistake)
    if wanted.offset is None or wanted.to is None:
        return None
    note_question_to_kafka(request)
    try:
        return Answer(explained(state_of(request), frame.cluster, *place, wanted.offset, wanted.to))
    except ProblemError as problem:
        return Answer(problem=problem.detail)


_SAYS: Final = {
    RelationKind.OPEN: ("info", "A transaction is open, and not overdue."),
    RelationKind.OVERDUE: ("warning", "A transaction is overdue."),
    RelationKind.COMPLETING: ("warning", "The blocking transaction is completing."),
    RelationKind.ADOPTED: ("warning", "Old records will end with another transaction."),
    RelationKind.UNREPLICATED_MARKER: ("warning", "The blocking transaction's marker is not replicated."),
    RelationKind.HANGING: ("critical", "No coordinator is set to end the blocking transaction."),
    RelationKind.UNKNOWN: ("unknown", "The blocking transaction cannot be judged."),
}


def partition_verdict(freshness: Freshness, place: str, judged: JudgedPartition | None, link: Link | None) -> Verdict:
    """Returns the verdict of the page. If the data are old, the verdict that the partition hides nothing is only the
    last known one, and not `ok`. `judged`: None if the partition is not watched. `link`: the partition's entry in the
    blocking chain; None if the partition is not stalled."""
    if judged is None:
        return Verdict("not_watched", "unknown", f"Unknown: {place} is not watched.")
    if freshness.word in (NEVER, UNKNOWN):
        ago = "yet" if freshness.word == NEVER else f"for {words.duration(freshness.age_ms)}"
        return Verdict(UNKNOWN, "unknown", f"Unknown: nothing has been read {ago}.")
    if judged.row.why is not None:
        return Verdict(UNKNOWN, "unknown", f"Unknown: {place} cannot be read.")
    last_known = "Last known: " if freshness.is_old else ""
    hides = f"{last_known}{place} hides {words.plural(judged.row.hidden_records, 'offset')}."
    if link is None:
        nothing = f"{last_known}{place} hides nothing: its LSO is at the high watermark."
        text = f"{hides} Its LSO is not stalled." if judged.row.hidden_records else nothing
        return Verdict("nothing", "unknown" if freshness.is_old else "ok", text)
    if freshness.word == READING:
        return Verdict(READING, "unknown", f"{hides} The blocking transaction is not judged yet.")
    tone, says = _SAYS[link.relation]
    return Verdict(link.relation, tone, f"{hides} {says}")


LAST: Final = 2**63 - 1

_NUMBER: Final = re.compile(r"[0-9]{1,3}(?:[, _][0-9]{3})+|[0-9]{1,19}", re.ASCII)


class Asked(NamedTuple):
    """The requested offsets [offset, to); None if the request names no such offset. `mistake`: one sentence on what is
    wrong with the typed text."""

    offset: int | None = None
    to: int | None = None
    mistake: str | None = None


def asked(offset: str, to: str) -> Asked:
    """Parses the offsets that were typed. If both texts are empty, no offsets are requested. `offset` without `to`
    requests one record."""
    offset, to = offset.strip(), to.strip()
    if not offset:
        return Asked(mistake="Type the first offset.") if to else Asked()
    first = _number(offset)
    if first is None or first >= LAST:
        return Asked(mistake=f"{offset[:40]!r} is no offset: type a number, 0 or above.")
    if not to:
        return Asked(first, first + 1)
    end = _number(to)
    if end is None or not first < end <= LAST:
        return Asked(first, None, f"{to[:40]!r} is no end: type a number above the offset.")
    return Asked(first, end)


def _number(text: str) -> int | None:
    return int(re.sub("[, _]", "", text)) if _NUMBER.fullmatch(text) else None

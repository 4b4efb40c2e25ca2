"""The page of partitions that hide records from read_committed consumers, and of those that cannot be observed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Final, Literal, NamedTuple

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy import Connection

from service.api.http.answers import KeptRoute
from service.domain.findings.catalogue import REPORTING
from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Kind, Status
from service.domain.findings.lifecycle import MOST_OPEN_IN_ALL
from service.domain.partitions.blocked_groups import AffectedGroup, GroupRelation, IsolationLevel
from service.domain.partitions.facts import TopicPartition
from service.domain.partitions.open_entries import RelationKind
from service.domain.transaction_log.causes import Confidence
from service.domain.transaction_log.states import is_time
from service.store.queries import findings
from service.store.queries import findings as read_findings
from service.store.queries.findings import FindingSelection
from service.store.queries.partitions import GROUPS_READ, read_affected_groups
from service.store.queries.pipeline import UNANSWERED_READ, read_unanswered
from service.views.partitions.blocking_chain import Link, by_id, by_key, links
from service.views.partitions.judged import MOST_JUDGED, JudgedEntry, JudgedPartition
from service.web.charts.ruler import Mini, mini
from service.web.shared.frame import Frame, framed
from service.web.shared.render import Paged, PageNumber, paged, render

_OWN: Final = frozenset({RelationKind.OPEN, RelationKind.OVERDUE, RelationKind.COMPLETING})

_SORT_TEXTS: Final = (("worst", "worst first"), ("hidden", "hidden records"), ("since", "stalled for"))

router = APIRouter(route_class=KeptRoute, include_in_schema=False)


class StandingRow(NamedTuple):
    """A stalled partition. `epoch`: of the producer that blocks it. `opened_ms`: start of its transaction."""

    link: Link
    epoch: int | None
    opened_ms: int | None

    @property
    def is_unknown(self) -> bool:
        return self.link.why is not None


def read_standing(
    connection: Connection, frame: Frame, judged: Sequence[JudgedPartition], victims: Iterable[AffectedGroup]
) -> list[StandingRow]:
    """Returns the rows of stalled partitions, the worst first."""
    confirmed = FindingSelection(kinds=frozenset(REPORTING.values()), statuses=frozenset({Status.CONFIRMED}))
    findings, _ = read_findings.read_page(connection, frame.cluster.id, confirmed, None, MOST_OPEN_IN_ALL)
    limits = frame.limits
    blockers = {(one.row.topic, one.row.partition): one.blocker for one in judged}
    chain = links(judged, victims, by_key(findings), limits, frame.now_ms, by_id(findings))
    return [_row(link, blockers[link.topic, link.partition]) for link in chain]


def _row(link: Link, blocker: JudgedEntry | None) -> StandingRow:
    if blocker is None:
        return StandingRow(link, None, None)
    return StandingRow(link, blocker.entry.producer_epoch, opened_ms(blocker))


def ordered(rows: Iterable[StandingRow], sort: str) -> list[StandingRow]:
    """Returns the rows in the order `sort`. `worst`: unchanged; `hidden`: most hidden records first; `since`: longest
    stalled first."""
    if sort == "hidden":
        return sorted(rows, key=lambda row: -row.link.hidden)
    if sort == "since":
        return sorted(rows, key=lambda row: row.link.since_ms)
    return list(rows)


def opened_ms(one: JudgedEntry) -> int:
    """Returns the start of the entry's transaction: as the coordinator has it if the entry belongs to its open
    transaction, else the time at which the entry was first seen."""
    owner = one.relation.owner
    if owner is not None and one.relation.kind in _OWN and is_time(owner.record.start_ms):
        return owner.record.start_ms
    return one.entry.first_seen_ms


def mini_of(link: Link) -> Mini | None:
    """Returns the small ruler, drawn by the macro `mini` of ruler.html; None if nothing is hidden."""
    return mini(link.log_start, link.last_stable_offset, link.high_watermark, link.relation)


@router.get("/clusters/{cluster}/partitions")
def get_partitions(
    request: Request,
    cluster: str,
    show: Literal["hidden", "waiting", "unknown"] = "hidden",
    topic: Annotated[str, Query(max_length=249)] = "",
    sort: Literal["worst", "hidden", "since"] = "worst",
    page: PageNumber = 1,
) -> Response:
    """Returns the page; 404 if the store does not know the cluster."""
    with framed(request, cluster) as (connection, frame):
        return _partitions(connection, frame, show, topic.strip(), sort, page)


def _partitions(connection: Connection, frame: Frame, show: str, topic: str, sort: str, page: int) -> Response:
    rows = read_standing(connection, frame, frame.standing, read_affected_groups(connection, frame.cluster.id))
    silent = [] if show == "waiting" else read_unanswered(connection, frame.cluster.id, topic)
    chosen = ordered((row for row in rows if topic in row.link.topic and _is_shown(row, show)), sort)
    shown = paged(chosen, page)
    return render(
        "partitions.html",
        frame,
        page="partitions",
        shown=shown,
        minis={row.link.place: mini_of(row.link) for row in shown.rows},
        silent=silent if shown.after is None else [],
        is_silent_later=bool(silent) and shown.after is not None,
        is_silent_cut=len(silent) >= UNANSWERED_READ,
        counts=frame.covered,
        waiting=sum(bool(row.link.waiting) for row in rows),
        not_judged=max(frame.covered.blocked - MOST_JUDGED, 0),
        most_judged=MOST_JUDGED,
        query={"show": show, "topic": topic or None, "sort": sort},
        sorts=_SORT_TEXTS,
    )


def _is_shown(row: StandingRow, show: str) -> bool:
    """Returns True if the filter `show` selects the row. `hidden` selects all, also those with an unknown blocker."""
    return show == "hidden" or (row.is_unknown if show == "unknown" else bool(row.link.waiting))


ORDER: Final = (
    GroupRelation.STOPPED,
    GroupRelation.UNSTABLE_OFFSETS,
    GroupRelation.WILL_STOP,
    GroupRelation.UNKNOWN,
    GroupRelation.READS_UNCOMMITTED,
    GroupRelation.INACTIVE,
)


class GroupRow(NamedTuple):
    """A consumer group on a partition. `committed`: None if it has committed nothing yet. `lag_to_lso`: below 0 if the
    group is beyond the LSO; both lags are None if nothing is committed or the partition is not watched. `behind`: the
    partition with the stalled LSO that affects the group. `is_pending`: the group's offset is part of the transaction
    that is open on `behind`. `to_go`: offsets until the group stops, if it will. `is_likely`: the relation is not
    certain. `isolation`: of a share group."""

    group: str
    topic: str
    partition: int
    relation: GroupRelation
    behind: TopicPartition
    committed: int | None
    last_stable_offset: int | None
    high_watermark: int | None
    lag_to_lso: int | None
    lag_to_hw: int | None
    members: int | None
    unchanged_since_ms: int
    is_blocked: bool
    is_pending: bool
    to_go: int | None
    is_likely: bool
    isolation: IsolationLevel | None

    @property
    def place(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def behind_place(self) -> str:
        return f"{self.behind[0]}-{self.behind[1]}"

    @property
    def is_measured_to_the_lso(self) -> bool:
        """Returns True if the group waits although its client reports no lag."""
        return self.is_blocked and self.lag_to_lso == 0


def group_rows(victims: Iterable[AffectedGroup]) -> list[GroupRow]:
    """Returns the rows, those of waiting groups first, then by name."""
    rows = [_group_row(one) for one in victims]
    return sorted(rows, key=lambda row: (ORDER.index(row.relation), row.group, row.topic, row.partition))


def _group_row(one: AffectedGroup) -> GroupRow:
    committed = None if one.offset.committed_offset < 0 else one.offset.committed_offset
    last_stable_offset = None if one.ends is None else one.ends.last_stable_offset
    high_watermark = None if one.ends is None else one.ends.high_watermark
    group, topic, partition = one.key
    return GroupRow(
        group=group,
        topic=topic,
        partition=partition,
        relation=one.relation,
        behind=one.stalled_partition,
        committed=committed,
        last_stable_offset=last_stable_offset,
        high_watermark=high_watermark,
        lag_to_lso=_lag(committed, last_stable_offset),
        lag_to_hw=_lag(committed, high_watermark),
        members=one.offset.members,
        unchanged_since_ms=one.offset.unchanged_since_ms,
        is_blocked=one.is_blocked,
        is_pending=one.is_pending,
        to_go=max(one.stalled_lso - (committed or 0), 0) if one.relation == GroupRelation.WILL_STOP else None,
        is_likely=one.confidence == Confidence.LIKELY,
        isolation=one.offset.isolation,
    )


def _lag(committed: int | None, end: int | None) -> int | None:
    return None if committed is None or end is None else end - committed


_GAPS_READ: Final = 200


@router.get("/clusters/{cluster}/groups")
def get_groups(
    request: Request,
    cluster: str,
    show: Literal["all", "blocked", "others"] = "all",
    group: Annotated[str, Query(max_length=600)] = "",
    page: PageNumber = 1,
) -> Response:
    """Returns the page; 404 if the store does not know the cluster."""
    with framed(request, cluster) as (connection, frame):
        return _groups(connection, frame, show, group.strip(), page)


def _groups(connection: Connection, frame: Frame, show: str, group: str, page: int) -> Response:
    rows = group_rows(read_affected_groups(connection, frame.cluster.id))
    chosen = [row for row in rows if group in row.group and (show == "all" or row.is_blocked == (show == "blocked"))]
    shown: Paged[GroupRow] = paged(chosen, page)
    return render(
        "groups.html",
        frame,
        page="groups",
        shown=shown,
        show=show,
        group=group,
        total=len(rows),
        blocked=sum(row.is_blocked for row in rows),
        names=names_by_relation(rows),
        is_cut=len(rows) >= GROUPS_READ,
        most=GROUPS_READ,
        unasked=denied_groups(connection, frame.cluster.id),
        standing=frame.covered.blocked,
    )


def names_by_relation(rows: Sequence[GroupRow]) -> Counter[str]:
    """Returns the number of groups by relation. A group with the same relation on several partitions counts once."""
    return Counter(relation for relation, _ in {(row.relation, row.group) for row in rows})


def denied_groups(connection: Connection, cluster_id: int) -> list[Finding]:
    """Returns the findings about groups that cannot be judged, so that it is not known if they wait."""
    gaps = FindingSelection(kinds=frozenset({Kind.COVERAGE_GAP}), statuses=frozenset({Status.CONFIRMED}))
    found, _ = findings.read_page(connection, cluster_id, gaps, None, _GAPS_READ)
    return sorted((one for one in found if one.subject.group is not None), key=lambda one: one.subject.group or "")

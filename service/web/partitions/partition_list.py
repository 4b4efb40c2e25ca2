"""The page of partitions that hide records from read_committed consumers, and of those that cannot be observed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final, Literal, NamedTuple

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy import Connection

from service.api.http.answers import KeptRoute
from service.domain.findings.catalogue import REPORTING
from service.domain.findings.kinds import Status
from service.domain.findings.lifecycle import MOST_OPEN_IN_ALL
from service.domain.partitions.blocked_groups import AffectedGroup
from service.domain.partitions.open_entries import RelationKind
from service.domain.transaction_log.states import is_time
from service.store.queries import findings as read_findings
from service.store.queries.findings import FindingSelection
from service.store.queries.partitions import read_affected_groups
from service.store.queries.pipeline import UNANSWERED_READ, read_unanswered
from service.views.partitions.blocking_chain import Link, by_id, by_key, links
from service.views.partitions.judged import MOST_JUDGED, JudgedEntry, JudgedPartition
from service.web.charts.ruler import Mini, mini
from service.web.shared.frame import Frame, framed
from service.web.shared.paging import PageNumber, paged
from service.web.shared.render import render

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
    if owner is not None and one.relation.kind in _OWN and is_time(owner.start_ms):
        return owner.start_ms
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

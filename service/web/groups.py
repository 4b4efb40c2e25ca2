"""The page of consumer groups that feel an open transaction: who is stopped, who will be, who is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy import Connection

from service.domain.findings.finding import Finding
from service.domain.findings.kinds import CONFIRMED, COVERAGE_GAP
from service.store.queries import findings
from service.store.queries.blocked_groups import read_victims
from service.store.queries.findings import FindingSelection
from service.store.queries.partitions import GROUPS_READ
from service.web.pages import framed
from service.web.partitions.groups import GroupRow, group_rows
from service.web.shared.frame import Frame
from service.web.shared.paging import Paged, PageNumber, paged
from service.web.shared.render import render

_GAPS_READ: Final = 200

router = APIRouter(include_in_schema=False)


@router.get("/clusters/{cluster}/groups")
def get_groups(
    request: Request,
    cluster: str,
    show: Literal["all", "blocked", "others"] = "all",
    group: Annotated[str, Query(max_length=600)] = "",
    page: PageNumber = 1,
) -> Response:
    """200; 404 for a cluster that the store does not know."""
    with framed(request, cluster) as (connection, frame):
        return _groups(connection, frame, show, group.strip(), page)


def _groups(connection: Connection, frame: Frame, show: str, group: str, page: int) -> Response:
    rows = group_rows(read_victims(connection, frame.cluster.id))
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
        standing=frame.body["partitions"]["blocked"],
    )


def names_by_relation(rows: Sequence[GroupRow]) -> Counter[str]:
    """How many groups stand in each relation; one that does on several partitions counts once."""
    return Counter(relation for relation, _ in {(row.relation, row.group) for row in rows})


def denied_groups(connection: Connection, cluster_id: int) -> list[Finding]:
    """Groups that may not be asked: whether they wait is not known."""
    gaps = FindingSelection(kinds=frozenset({COVERAGE_GAP}), statuses=frozenset({CONFIRMED}))
    found, _ = findings.read_page(connection, cluster_id, gaps, None, _GAPS_READ)
    return sorted((one for one in found if one.subject.group is not None), key=lambda one: one.subject.group or "")

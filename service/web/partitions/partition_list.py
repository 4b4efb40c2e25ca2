"""Two pages: the partitions whose LSO is stalled or that cannot be observed, and the consumer groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy import Connection

from service.api.http.answers import KeptRoute
from service.domain.application_rules import LONGEST_NAME
from service.domain.findings.catalogue import REPORTING
from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Kind, Status
from service.domain.findings.lifecycle import MOST_OPEN_IN_ALL
from service.domain.partitions.blocked_groups import AffectedGroup
from service.store.queries import findings
from service.store.queries.findings import FindingSelection
from service.store.queries.partitions import GROUPS_READ, read_affected_groups
from service.store.queries.pipeline import UNANSWERED_READ, read_unanswered
from service.views.applications import Holders
from service.views.cluster.frame import Frame
from service.views.partitions.blocking_chain import Link, links, waiting_first
from service.views.partitions.judged import MOST_JUDGED, JudgedPartition
from service.web.shared.frame import framed
from service.web.shared.render import PageNumber, paged, render

_SORT_TEXTS: Final = (("worst", "worst first"), ("hidden", "most hidden"), ("since", "stalled for"))

router = APIRouter(route_class=KeptRoute, include_in_schema=False)


def read_links(
    connection: Connection, frame: Frame, judged: Sequence[JudgedPartition], affected: Iterable[AffectedGroup]
) -> list[Link]:
    """Returns the blocking chain: an entry (`Link`) for each of the stalled partitions in `judged`, the worst first."""
    confirmed = FindingSelection(kinds=frozenset(REPORTING.values()), statuses=frozenset({Status.CONFIRMED}))
    found, _ = findings.read_page(connection, frame.cluster.id, confirmed, None, MOST_OPEN_IN_ALL)
    return links(judged, affected, found, frame.limits, frame.now_ms)


def ordered(chain: Iterable[Link], sort: str) -> list[Link]:
    """Returns the entries of the chain in the order `sort`. `worst`: unchanged; `hidden`: most hidden offsets first;
    `since`: longest stalled first."""
    if sort == "hidden":
        return sorted(chain, key=lambda link: -link.row.hidden_records)
    if sort == "since":
        return sorted(chain, key=lambda link: link.since_ms)
    return list(chain)


@router.get("/clusters/{cluster}/partitions")
def get_partitions(
    request: Request,
    cluster: str,
    show: Literal["hidden", "waiting", "unknown"] = "hidden",
    topic: Annotated[str, Query(max_length=249)] = "",
    application: Annotated[str, Query(max_length=LONGEST_NAME)] = "",
    sort: Literal["worst", "hidden", "since"] = "worst",
    page: PageNumber = 1,
) -> Response:
    """Returns the page; 404 if the store does not know the cluster."""
    topic = topic.strip()
    with framed(request, cluster) as (connection, frame):
        chain = read_links(connection, frame, frame.standing, read_affected_groups(connection, frame.cluster.id))
        holders = Holders.read(connection, frame.cluster.id, frame.standing)
        is_any = show == "waiting" or application
        silent = [] if is_any else read_unanswered(connection, frame.cluster.id, topic)
        fitting = (link for link in chain if topic in link.row.topic and _is_shown(link, show))
        chosen = ordered((link for link in fitting if application in ("", holders.of(link.judged))), sort)
        shown = paged(chosen, page)
        return render(
            "partitions.html",
            frame,
            page="partitions",
            shown=shown,
            silent=silent if shown.after is None else [],
            is_silent_later=bool(silent) and shown.after is not None,
            is_silent_cut=len(silent) >= UNANSWERED_READ,
            counts=frame.seen.coverage,
            waiting=sum(bool(link.waiting) for link in chain),
            not_judged=max(frame.seen.coverage.blocked - MOST_JUDGED, 0),
            most_judged=MOST_JUDGED,
            query={"show": show, "topic": topic or None, "application": application or None, "sort": sort},
            holders=holders,
            sorts=_SORT_TEXTS,
        )


def _is_shown(link: Link, show: str) -> bool:
    """Returns True if the filter `show` selects the entry of the chain."""
    return show == "hidden" or (link.judged.why is not None if show == "unknown" else bool(link.waiting))


_GAPS_READ: Final = 200


@router.get("/clusters/{cluster}/groups")
def get_groups(
    request: Request,
    cluster: str,
    show: Literal["all", "blocked", "others"] = "all",
    group: Annotated[str, Query(max_length=600)] = "",
    application: Annotated[str, Query(max_length=LONGEST_NAME)] = "",
    page: PageNumber = 1,
) -> Response:
    """Returns the page; 404 if the store does not know the cluster."""
    group = group.strip()
    with framed(request, cluster) as (connection, frame):
        rows = waiting_first(read_affected_groups(connection, frame.cluster.id))
        holders = Holders.read(connection, frame.cluster.id, frame.standing)
        chosen = [
            row
            for row in rows
            if group in row.offset.group
            and (show == "all" or row.is_blocked == (show == "blocked"))
            and application in ("", holders.of_group(row))
        ]
        return render(
            "groups.html",
            frame,
            page="groups",
            shown=paged(chosen, page),
            show=show,
            group=group,
            application=application,
            holders=holders,
            total=len(rows),
            blocked=sum(row.is_blocked for row in rows),
            names=Counter(relation for relation, _ in {(row.relation, row.offset.group) for row in rows}),
            is_cut=len(rows) >= GROUPS_READ,
            most=GROUPS_READ,
            unasked=[] if application else denied_groups(connection, frame.cluster.id),
            standing=frame.seen.coverage.blocked,
        )


def denied_groups(connection: Connection, cluster_id: int) -> list[Finding]:
    """Returns the confirmed coverage gaps of groups, sorted by the name of the group. It is not known whether these
    groups wait. Reads at most _GAPS_READ coverage gaps, the last opened first."""
    gaps = FindingSelection(kinds=frozenset({Kind.COVERAGE_GAP}), statuses=frozenset({Status.CONFIRMED}))
    found, _ = findings.read_page(connection, cluster_id, gaps, None, _GAPS_READ)
    return sorted(
        (finding for finding in found if finding.subject.group is not None),
        key=lambda finding: finding.subject.group or "",
    )

"""The pages of applications: all applications of a cluster, the worst first, and one application with its open
transactions and its findings."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy import Connection

from service.api.http.answers import KeptRoute
from service.api.http.state import known_application
from service.domain.findings.finding import Finding
from service.domain.findings.kinds import Status
from service.domain.transaction_log.states import NAMES, OPEN
from service.store.queries import findings, transactions
from service.store.queries.applications import ApplicationRow, all_applications, worst_first
from service.store.queries.findings import FindingSelection
from service.store.queries.transaction_pages import Selection
from service.store.rows.ids import IdRow
from service.views.applications import SeenApplication, see
from service.views.cluster.frame import Frame
from service.views.transactions.next_step import open_since_ms
from service.web.shared.frame import framed
from service.web.shared.render import PageNumber, paged, render

OPEN_SHOWN: Final = 20
FINDINGS_SHOWN: Final = 20
PLACES_SHOWN: Final = 100
_SORTS: Final = (("failed", "most failed first"), ("open", "longest open first"), ("name", "by name"))
_NEVER_MS: Final = 2**62

router = APIRouter(route_class=KeptRoute, include_in_schema=False)


@router.get("/clusters/{cluster}/applications")
def get_applications(
    request: Request,
    cluster: str,
    q: Annotated[str, Query(max_length=200)] = "",
    sort: Literal["failed", "open", "name"] = "failed",
    page: PageNumber = 1,
) -> Response:
    """Returns the page; 404 if the store does not know the cluster. `q`: a part of the name; upper and lower
    case are not distinguished."""
    q = q.strip()
    with framed(request, cluster) as (connection, frame):
        rows = all_applications(connection, frame.cluster.id)
        chosen = _ordered([row for row in rows if q.lower() in row.name.lower()], sort)
        shown = paged(see(connection, frame.cluster.id, chosen, frame.standing), page)
        return render(
            "applications.html",
            frame,
            page="applications",
            shown=shown,
            total=len(rows),
            ids=sum(row.ids for row in rows),
            known=sum(frame.seen.states.values()),
            query={"q": q or None, "sort": sort},
            sorts=_SORTS,
        )


def _ordered(rows: list[ApplicationRow], sort: str) -> list[ApplicationRow]:
    if sort == "open":
        return sorted(
            rows, key=lambda application_row: (application_row.oldest_open_ms or _NEVER_MS, application_row.name)
        )
    return worst_first(rows) if sort == "failed" else rows


@router.get("/clusters/{cluster}/applications/{name:path}")
def get_application(request: Request, cluster: str, name: str) -> Response:
    """Returns the page of an application; 404 if the cluster has no application of this name."""
    with framed(request, cluster) as (connection, frame):
        row = known_application(connection, frame.cluster, name)
        (application,) = see(connection, frame.cluster.id, [row], frame.standing)
        return render("application.html", frame, page="applications", **_of_one(connection, frame, application))


def _of_one(connection: Connection, frame: Frame, application: SeenApplication) -> dict[str, Any]:
    wrong = FindingSelection(statuses=frozenset({Status.CONFIRMED}), application=application.row.name)
    found, _ = findings.read_page(connection, frame.cluster.id, wrong, None, FINDINGS_SHOWN)
    return {
        "one": application,
        "row": application.row,
        "opened": [(row, open_since_ms(row)) for row in _open(connection, frame, application.row.name)],
        "opened_shown": OPEN_SHOWN,
        "findings": _gravest_first(found),
        "findings_count": findings.count(connection, frame.cluster.id, wrong),
        "places_shown": PLACES_SHOWN,
        "names": NAMES,
    }


def _open(connection: Connection, frame: Frame, name: str) -> tuple[IdRow, ...]:
    """Returns the application's oldest open transactions."""
    selection = Selection(OPEN, application=name)
    return transactions.read_page(connection, frame.cluster.id, selection, "age", None, OPEN_SHOWN).rows


def _gravest_first(found: list[Finding]) -> list[Finding]:
    return sorted(found, key=lambda finding: finding.severity.rank)

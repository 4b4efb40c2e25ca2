"""The audit of a cluster: what people and programs did, tried, or were refused, and the mutes in effect."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Request, Response
from fastapi import Query as QueryParameter

from service.access.actions import Action
from service.api.http.answers import KeptRoute
from service.api.http.parameters import only_known
from service.api.http.principals import sees_service
from service.api.http.state import App
from service.api.schemas.access import ActionWord
from service.store.audit_events import AuditSelection, read_page
from service.store.finding_marks import read_mutes
from service.views.addresses import page_of
from service.web.shared.frame import framed
from service.web.shared.render import render

ROWS: Final = 100

router = APIRouter(route_class=KeptRoute, include_in_schema=False, dependencies=[Depends(only_known)])


@router.get("/clusters/{cluster}/audit")
def get_audit(
    request: Request,
    app: App,
    cluster: str,
    action: ActionWord | Literal[""] = "",
    before: Annotated[int | None, QueryParameter(ge=1, lt=2**63)] = None,
) -> Response:
    """Returns the page. `action`: only rows of this action; `before`: only rows with a number below this one."""
    sees_all = sees_service(request, is_on=app.access.authenticator.is_on)
    selection = AuditSelection(action=action or None, with_service=sees_all)
    with framed(request, cluster) as (connection, frame):
        rows = read_page(connection, frame.cluster.id, selection, before, ROWS + 1)
        shown = rows[:ROWS]
        older = page_of(frame.name, "audit", action=action or None, before=shown[-1].id) if len(rows) > ROWS else None
        return render(
            "audit.html",
            frame,
            page="audit",
            rows=shown,
            older=older,
            action=action,
            actions=Action,
            mutes=read_mutes(connection, frame.cluster.id, frame.now_ms),
        )

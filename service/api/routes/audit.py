"""GET /clusters/{c}/audit: what people and programs did, tried, or were refused, the newest first."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query as QueryParameter
from fastapi import Request, Response
from pydantic import TypeAdapter

from service.api.http.answers import KeptRouter, answer_page
from service.api.http.paging import LIMIT, Cursor, Int64, Limit, read_place, write_place
from service.api.http.principals import sees_service
from service.api.http.state import App, known_cluster
from service.api.schemas.access import ActionWord, AuditEntries, AuditEntry, OutcomeWord
from service.store.audit_events import AuditSelection, read_page

_PLACE: Final = TypeAdapter(Int64)
"""The content of a cursor: the id of the page's last row."""

router = KeptRouter("access")


@router.read("/clusters/{cluster}/audit", "listAudit", AuditEntries)
def list_audit(
    request: Request,
    app: App,
    cluster: str,
    action: Annotated[ActionWord | None, QueryParameter(description="Only this action.")] = None,
    outcome: Annotated[OutcomeWord | None, QueryParameter(description="Only this outcome.")] = None,
    who: Annotated[
        str | None,
        QueryParameter(max_length=1_000, description="Only actions of the person or program with this name."),
    ] = None,
    limit: Limit = LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Lists what was done, tried or refused in the cluster, the newest first: markers, dry runs, mutes,
    acknowledgements and refused requests. Needs the role operator. An admin of all clusters also gets changes of keys,
    and refused requests that concern no cluster.
    """
    selection = AuditSelection(action, outcome, who, sees_service(request, is_on=app.access.authenticator.is_on))
    filters = (cluster, "audit", *selection)
    before = read_place(_PLACE, cursor, *filters)
    with app.store.read() as connection:
        rows = read_page(connection, known_cluster(connection, cluster).id, selection, before, limit + 1)
    now_ms = app.now_ms()
    next_cursor = write_place(rows[limit - 1].id, *filters) if len(rows) > limit else None
    return answer_page(AuditEntries, [AuditEntry.of(row) for row in rows[:limit]], next_cursor, now_ms)

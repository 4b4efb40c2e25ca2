"""The page of the receivers of notifications: what each receiver accepted, and to which receivers deliveries fail."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Response

from service.api.http.answers import KeptRoute
from service.api.http.parameters import only_known
from service.api.http.state import App
from service.store.receivers import read_receivers
from service.web.shared.render import render_bare

router = APIRouter(route_class=KeptRoute, include_in_schema=False, dependencies=[Depends(only_known)])


@router.get("/notifications")
def show_notifications(app: App) -> Response:
    """Returns the page. Receivers to which deliveries fail come first."""
    now_ms = app.now_ms()
    with app.store.read() as connection:
        found = read_receivers(connection)
    found.sort(key=lambda receiver_state: (receiver_state.failing_since_ms is None, receiver_state.name))
    return render_bare("notifications.html", receivers=found, now=now_ms)

"""GET /notifications: the receivers of notifications, and how their deliveries go."""

from __future__ import annotations

from fastapi import Response

from service.api.http.answers import KeptRouter, answer_page
from service.api.http.paging import LIMIT, Cursor, Limit, cut
from service.api.http.problems import describe
from service.api.http.state import App
from service.api.schemas.notifications import NotifiedReceiver, NotifiedReceivers
from service.store.receivers import read_receivers

router = KeptRouter("findings")


@router.get(
    "/notifications",
    operation_id="listNotifications",
    response_model=NotifiedReceivers,
    responses=describe(400, 422, 503),
)
def list_notifications(app: App, limit: Limit = LIMIT, cursor: Cursor = None) -> Response:
    """Lists the receivers of notifications, by name: how many notifications each took, how many events wait for it, and
    since when and why its deliveries fail. Needs the role viewer in all clusters.
    """
    now_ms = app.now_ms()
    with app.store.read() as connection:
        found = read_receivers(connection)
    page, next_cursor = cut(found, lambda receiver_state: (receiver_state.name,), limit, cursor, "notifications")
    return answer_page(
        NotifiedReceivers, [NotifiedReceiver.of(receiver_state) for receiver_state in page], next_cursor, now_ms
    )

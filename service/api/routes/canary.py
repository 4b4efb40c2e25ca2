"""GET /clusters/{cluster}/canary: whether transactions can run now."""

from __future__ import annotations

from fastapi import Response

from service.api.http.answers import KeptRouter, answer
from service.api.http.state import App
from service.api.schemas.canary import Canary
from service.views.cluster.canary import read_health

router = KeptRouter("clusters")


@router.read("/clusters/{cluster}/canary", "getCanary", Canary)
def get_canary(app: App, cluster: str) -> Response:
    """Returns whether transactions can run now, at each coordinator, by the canary's own transactions."""
    now_ms = app.now_ms()
    with app.reading(cluster) as (connection, found):
        health = read_health(connection, found.id, now_ms)
    return answer(Canary.of(found.name, health), None if health is None else health.canary.as_of_ms)

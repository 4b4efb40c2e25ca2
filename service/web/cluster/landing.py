"""`/`: the clusters with a verdict each, and links to all else; `/go`: redirects to the chosen cluster."""

from __future__ import annotations

from typing import Final, NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy import Connection

from service.api.http.access import require_cluster
from service.api.http.answers import KeptRoute
from service.api.http.fields import API
from service.api.http.principals import principal_of
from service.api.http.problems import RETRY_AFTER_S
from service.api.http.state import App, known_cluster
from service.store.errors import StoreError
from service.store.queries import clusters
from service.store.queries.clusters import ClusterRow
from service.views.addresses import cluster_page
from service.web.cluster.overview import judged, read_chain, read_confirmed, unacknowledged
from service.web.shared.frame import Frame, Verdict, read_frame
from service.web.shared.render import render_bare

router = APIRouter(route_class=KeptRoute, include_in_schema=False)


_WORST_FIRST: Final = ("critical", "warning", "unknown", "info", "ok")
"""Tones of verdicts."""
_UNSEEN: Final = Verdict("unseen", "unknown", "Unknown: nothing was ever read of it.")


class Listed(NamedTuple):
    """A cluster of the list, with its verdict. `frame` None: it is configured, and nothing was ever read of it."""

    name: str
    verdict: Verdict
    frame: Frame | None = None


@router.get("/")
def get_landing(request: Request, app: App) -> Response:
    """Returns the list of clusters, worst first; 503, still with the links, while the store cannot be read."""
    now_ms = app.now_ms()
    principal = principal_of(request)
    listed, trouble = [], None
    try:
        with app.store.read() as connection:
            seen = [one for one in clusters.all_clusters(connection) if principal.sees(one.name)]
            listed = [_listed(connection, cluster, now_ms) for cluster in seen]
        unseen = {*filter(principal.sees, app.configured_clusters)} - {one.name for one in listed}
        listed = sorted([*listed, *(Listed(name, _UNSEEN) for name in unseen)], key=_rank)
    except StoreError as error:
        trouble = str(error)
    page = render_bare(
        "landing.html",
        200 if trouble is None else 503,
        listed=listed,
        trouble=trouble,
        version=request.app.version,
        api=API,
        now=now_ms,
    )
    if trouble is not None:
        page.headers["Retry-After"] = str(RETRY_AFTER_S)
    return page


@router.get("/go")
def go(request: Request, app: App, cluster: str) -> Response:
    """Redirects (303) to the page of the cluster; 403 if the sender may not see it, 404 if the store does not know
    it."""
    require_cluster(request, cluster)
    with app.store.read() as connection:
        name = known_cluster(connection, cluster).name
    return RedirectResponse(cluster_page(name), 303)


def _rank(one: Listed) -> tuple[int, str]:
    return _WORST_FIRST.index(one.verdict.tone), one.name


def _listed(connection: Connection, cluster: ClusterRow, now_ms: int) -> Listed:
    frame = read_frame(connection, cluster, now_ms)
    hanging, confirmed = read_confirmed(connection, frame)
    chain = read_chain(connection, frame, [*hanging, *confirmed])
    return Listed(frame.name, judged(frame, hanging, chain, unacknowledged(confirmed, now_ms)), frame)

"""The landing page over all clusters, and the overview of one cluster: the verdict, the blocking chain with its
outlook, other findings, and the findings that were resolved lately."""

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
from service.domain.findings.kinds import Kind
from service.domain.partitions.open_entries import RelationKind
from service.domain.transaction_log import states
from service.domain.worlds.verdict import Decided
from service.store.errors import StoreError, StoreNotMigrated
from service.store.queries import clusters, findings, pipeline, transactions
from service.store.queries.clusters import ClusterRow
from service.store.queries.transaction_pages import Selection
from service.views.addresses import cluster_page
from service.views.cluster.canary import read_health
from service.views.cluster.frame import Frame, read_frame
from service.views.cluster.last_hour import read_last_hour
from service.views.cluster.verdict import (
    Verdict,
    hanging_note,
    is_blind,
    is_silent,
    judged,
    read_chain,
    read_confirmed,
    unacknowledged,
)
from service.views.findings.subject import is_muted, other_findings
from service.views.words import COUNTED, WORDS
from service.web.charts.minutes import area, stacked
from service.web.shared.frame import framed
from service.web.shared.render import render, render_bare

router = APIRouter(route_class=KeptRoute, include_in_schema=False)


_WORST_FIRST: Final = ("critical", "warning", "unknown", "info", "ok")
"""Tones of verdicts, in the order of the list of clusters."""
_UNSEEN: Final = Verdict("unseen", "unknown", "Unknown: nothing has been read from this cluster yet.")


class Listed(NamedTuple):
    """A cluster of the list, with its verdict. `frame`: None if the cluster is configured but nothing was ever read
    from it."""

    name: str
    verdict: Verdict
    frame: Frame | None = None


@router.get("/")
def get_landing(request: Request, app: App) -> Response:
    """Returns the list of clusters, worst first. While the store cannot be read, returns 503 with the reason in place
    of the list."""
    now_ms = app.now_ms()
    principal = principal_of(request)
    listed: list[Listed] = []
    trouble: StoreError | None = None
    try:
        with app.store.read() as connection:
            seen = [cluster for cluster in clusters.all_clusters(connection) if principal.sees(cluster.name)]
            listed = [_listed(connection, cluster, now_ms) for cluster in seen]
        unseen = {*filter(principal.sees, app.configured_clusters)} - {one.name for one in listed}
        listed = sorted(
            [*listed, *(Listed(name, _UNSEEN) for name in unseen)],
            key=lambda one: (_WORST_FIRST.index(one.verdict.tone), one.name),
        )
    except StoreError as error:
        trouble = error
    page = render_bare(
        "landing.html",
        200 if trouble is None else 503,
        listed=listed,
        trouble=trouble,
        waits=isinstance(trouble, StoreNotMigrated),
        newer=app.store.newer,
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


def _listed(connection: Connection, cluster: ClusterRow, now_ms: int) -> Listed:
    frame = read_frame(connection, cluster, now_ms)
    hanging, confirmed = read_confirmed(connection, frame)
    chain = read_chain(connection, frame, [*hanging, *confirmed])
    return Listed(frame.name, judged(frame, hanging, chain, unacknowledged(confirmed, now_ms)), frame)


SHOWN: Final = 50
OTHERS_SHOWN: Final = 20
_DAY_MS: Final = 86_400_000
_STYLES: Final = tuple(WORDS[cause].style for cause in COUNTED.values())


@router.get("/clusters/{cluster}")
def get_overview(request: Request, cluster: str) -> Response:
    """Returns the page; 404 if the store does not know the cluster."""
    with framed(request, cluster) as (connection, frame):
        cluster_id, now_ms = frame.cluster.id, frame.now_ms
        hanging, confirmed = read_confirmed(connection, frame)
        chain = read_chain(connection, frame, [*hanging, *confirmed])
        lost = unacknowledged(confirmed, now_ms)
        verdict = judged(frame, hanging, chain, lost)
        loud = [finding for finding in hanging if not is_muted(finding, now_ms)]
        heads = [link for link in chain if link.relation == RelationKind.HANGING and not link.is_muted]
        top = heads[0] if heads else None if loud else next((link for link in chain if not link.is_muted), None)
        others = other_findings([*hanging, *confirmed], chain, frame.name, now_ms)
        stopped = {group.offset.group for link in chain for group in link.waiting if group.to_go is None}
        will_stop = {group.offset.group for link in chain for group in link.waiting if group.to_go is not None}
        hour = read_last_hour(connection, frame)
        canary = read_health(connection, cluster_id, now_ms)
        oldest = transactions.read_page(connection, cluster_id, Selection(states.OPEN), "age", None, 1).rows
        return render(
            "overview.html",
            frame,
            page="overview",
            verdict=verdict,
            top=top,
            lost=lost[0] if lost else None,
            first=loud[0] if loud and not heads else None,
            beside=[link for link in chain if link is not top and not link.is_muted],
            committed=sum(finding.observation.decision == Decided.COMMIT for finding in loud),
            muted=len(hanging) - len(loud),
            hanging_note=hanging_note(frame, len(hanging) - len(loud)),
            is_blind=is_blind(frame, verdict),
            chain=chain[:SHOWN],
            more=max(frame.seen.coverage.blocked - SHOWN, 0),
            covered=frame.seen.coverage,
            others=others[:OTHERS_SHOWN],
            others_count=len(others),
            oldest=oldest[0] if oldest and states.is_time(oldest[0].started_at_ms) else None,
            last=next(iter(findings.resolved_last(connection, cluster_id, 0, 1)), None),
            resolved=findings.count_resolved(connection, cluster_id, now_ms - _DAY_MS),
            halves=pipeline.medians(connection, cluster_id),
            hour=hour,
            commits=None if hour is None else area(hour.commits, hour.missing),
            aborts=None if hour is None else stacked([*[{}] * hour.missing, *hour.aborts], _STYLES),
            in_time=not any(finding.kind == Kind.OVERDUE for finding in confirmed),
            silent=is_silent(frame),
            stopped=len(stopped),
            will_stop=len(will_stop - stopped),
            canary=canary if canary is not None and canary.canary.is_running else None,
        )

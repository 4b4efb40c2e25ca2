"""The landing page over all clusters, and the overview of one: the verdict, the blocking chain with its outlook, other
findings, what ended lately.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy import Connection

from service.api.http.access import require_cluster
from service.api.http.answers import KeptRoute
from service.api.http.fields import API
from service.api.http.principals import principal_of
from service.api.http.problems import RETRY_AFTER_S
from service.api.http.state import App, known_cluster
from service.domain.findings.catalogue import UNTIL_ACKNOWLEDGED
from service.domain.findings.finding import Finding
from service.domain.findings.formatting import join_names
from service.domain.findings.kinds import Kind, Status
from service.domain.findings.lifecycle import MOST_OPEN, MOST_OPEN_IN_ALL
from service.domain.partitions.open_entries import RelationKind
from service.domain.reasons.reason import parts
from service.domain.reasons.unread import NoBroker
from service.domain.source_state import Stall
from service.domain.transaction_log import states
from service.domain.worlds.verdict import Decided
from service.store.errors import StoreError
from service.store.queries import clusters, pipeline, transactions
from service.store.queries import findings as read_findings
from service.store.queries.clusters import ClusterRow
from service.store.queries.findings import FindingSelection
from service.store.queries.partitions import read_affected_groups
from service.store.queries.transaction_pages import Selection
from service.views.addresses import cluster_page
from service.views.findings.subject import is_muted, other_findings
from service.views.partitions.blocking_chain import Link, by_id, by_key, links
from service.web.cluster.last_hour import read_last_hour
from service.web.cluster.verdict import Seen, verdict_of
from service.web.shared.frame import Frame, Verdict, framed, read_frame
from service.web.shared.render import render, render_bare

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


SHOWN: Final = 50
OTHERS_SHOWN: Final = 20
_DAY_MS: Final = 86_400_000
_SAYS_SOMETHING: Final = 0.02


@router.get("/clusters/{cluster}")
def get_overview(request: Request, cluster: str) -> Response:
    """Returns the page; 404 if the store does not know the cluster."""
    with framed(request, cluster) as (connection, frame):
        return _overview(connection, frame)


def _overview(connection: Connection, frame: Frame) -> Response:
    cluster_id, now_ms = frame.cluster.id, frame.now_ms
    hanging, confirmed = read_confirmed(connection, frame)
    chain = read_chain(connection, frame, [*hanging, *confirmed])
    lost = unacknowledged(confirmed, now_ms)
    verdict = judged(frame, hanging, chain, lost)
    loud = [one for one in hanging if not is_muted(one, now_ms)]
    heads = [link for link in chain if link.relation == RelationKind.HANGING and not link.is_muted]
    top = heads[0] if heads else None if loud else next((link for link in chain if not link.is_muted), None)
    others = other_findings([*hanging, *confirmed], chain, frame.name, now_ms)
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
        committed=sum(one.decision == Decided.COMMIT for one in loud),
        muted=len(hanging) - len(loud),
        chain=chain[:SHOWN],
        more=max(frame.covered.blocked - SHOWN, 0),
        covered=frame.covered,
        others=others[:OTHERS_SHOWN],
        others_count=len(others),
        oldest=oldest[0] if oldest and states.is_time(oldest[0].started_at_ms) else None,
        last=pipeline.last_resolved(connection, cluster_id),
        resolved=pipeline.resolved_since(connection, cluster_id, now_ms - _DAY_MS),
        halves=pipeline.medians(connection, cluster_id),
        hour=read_last_hour(connection, frame),
        in_time=not any(one.kind == Kind.OVERDUE for one in confirmed),
        silent=is_silent(frame),
        **_groups(chain),
    )


def read_confirmed(connection: Connection, frame: Frame) -> tuple[Sequence[Finding], Sequence[Finding]]:
    """Returns the confirmed findings: the hanging ones, the longest first; and the others, those opened last first."""
    hanging = read_findings.longest_open(connection, frame.cluster.id, Kind.HANGING, MOST_OPEN)
    open_ = FindingSelection(statuses=frozenset({Status.CONFIRMED}))
    found, _ = read_findings.read_page(connection, frame.cluster.id, open_, None, MOST_OPEN_IN_ALL)
    return hanging, [one for one in found if one.kind != Kind.HANGING]


def read_chain(connection: Connection, frame: Frame, findings: Sequence[Finding]) -> list[Link]:
    """Returns a link for every stalled partition, the worst first."""
    victims = read_affected_groups(connection, frame.cluster.id)
    limits = frame.limits
    return links(frame.standing, victims, by_key(findings), limits, frame.now_ms, by_id(findings))


def unacknowledged(confirmed: Iterable[Finding], now_ms: int) -> list[Finding]:
    """Returns the findings that stay until somebody acknowledges them; a muted one does not head the page."""
    return [one for one in confirmed if one.kind in UNTIL_ACKNOWLEDGED and not is_muted(one, now_ms)]


def judged(frame: Frame, hanging: Sequence[Finding], chain: Sequence[Link], lost: Sequence[Finding]) -> Verdict:
    """Returns the verdict on the cluster; muted findings do not head the page."""
    muted = sum(is_muted(one, frame.now_ms) for one in hanging)
    return verdict_of(
        Seen(
            cluster=frame.name,
            freshness=frame.freshness,
            hanging=len(hanging) - muted,
            muted=muted,
            links=[link for link in chain if not link.is_muted],
            coverage=frame.covered,
            ids=sum(frame.ids.values()),
            is_cut=Kind.HANGING in frame.seen.truncated,
            left_ms=left_ms(frame),
            is_silent=is_silent(frame),
            lost=len(lost),
            stalled=stalled_alone(frame),
            is_log_unread=frame.log_unread is not None,
        )
    )


def is_silent(frame: Frame) -> bool:
    """Returns True if no broker answers. The last error of an application that is gone does not count."""
    told = (frame.statuses[one].error for one in frame.statuses if _is_attended(frame.stalls.get(one)))
    return any(isinstance(one, NoBroker) for error in told for one in parts(error))


def _is_attended(stall: Stall | None) -> bool:
    return stall is None or stall.unread_since_ms is None


def stalled_alone(frame: Frame) -> str:
    """Returns the names of the sources that stall while others do not; empty where none or all of them do."""
    lines = frame.stall_lines
    is_all = frame.statuses.keys() <= {source for line in lines for source in line.sources}
    return "" if is_all else join_names([line.names for line in lines])


def left_ms(frame: Frame) -> int | None:
    """Returns the approximate time that the first read still takes, at its speed so far; None if that is not known."""
    read, since_ms, as_of_ms = frame.first_read, frame.cluster.counted_since_ms, frame.freshness.as_of_ms
    if read is None or since_ms is None or as_of_ms is None or read.share < _SAYS_SOMETHING:
        return None
    return int(max(as_of_ms - since_ms, 0) * (1 - read.share) / read.share)


def _groups(chain: Sequence[Link]) -> dict[str, Any]:
    """Returns the number of groups that have stopped, and of those that will stop, each group counted once."""
    stopped = {one.offset.group for link in chain for one in link.waiting if one.to_go is None}
    will_stop = {one.offset.group for link in chain for one in link.waiting if one.to_go is not None}
    return {"stopped": len(stopped), "will_stop": len(will_stop - stopped)}

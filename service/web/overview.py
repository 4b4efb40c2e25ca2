"""The overview of a cluster: does anything hang, who blocks whom, does it heal?"""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response
from sqlalchemy import Connection

from service.domain import states
from service.domain.findings.context import limits_of
from service.domain.findings.finding import Finding
from service.domain.findings.kinds import CONFIRMED, EVENTS, HANGING, RESOLVED
from service.store import read_findings, read_partitions, read_transactions
from service.store.read_findings import FindingSelection
from service.store.read_judged import coverage, judge
from service.store.read_victims import read_victims
from service.store.select_transactions import Selection
from service.web.chain import Link, links
from service.web.frame import Frame
from service.web.pages import framed
from service.web.render import render
from service.web.verdict import verdict_of

SHOWN: Final = 50

router = APIRouter(include_in_schema=False)


@router.get("/clusters/{cluster}")
def get_overview(request: Request, cluster: str) -> Response:
    """200; 404 for a cluster that the store does not know."""
    with framed(request, cluster) as (connection, frame):
        return _overview(connection, frame)


def _overview(connection: Connection, frame: Frame) -> Response:
    cluster_id = frame.cluster.id
    chain = read_chain(connection, frame)
    others = [
        one
        for one in _confirmed(connection, cluster_id)
        if one.kind not in (HANGING, "blocked_group") and one.kind != "stuck_completion"
    ]
    oldest = read_transactions.read_page(connection, cluster_id, Selection(states.OPEN), "age", None, 1).rows
    resolved = FindingSelection(statuses=frozenset({RESOLVED}))
    last, _ = read_findings.read_page(connection, cluster_id, resolved, None, 1)
    covered = coverage(connection, cluster_id)
    return render(
        "overview.html",
        frame,
        page="overview",
        verdict=verdict_of(
            frame.freshness, frame.body["hanging"], chain, covered, sum(frame.body["states"].values()), frame.name
        ),
        chain=chain[:SHOWN],
        more=max(len(chain) - SHOWN, 0),
        covered=covered,
        others=others,
        events=EVENTS,
        oldest=oldest[0] if oldest else None,
        last=last[0] if last else None,
        stopped=len({w.group for link in chain for w in link.waiting if w.to_go is None}),
        will_stop=len({w.group for link in chain for w in link.waiting if w.to_go is not None}),
    )


def read_chain(connection: Connection, frame: Frame) -> list[Link]:
    """Every partition whose LSO stands, the worst first."""
    rows = read_partitions.stalled(connection, frame.cluster.id)
    judged = judge(connection, frame.cluster.id, rows)
    hanging = {
        (one.subject.topic or "", one.subject.partition or 0, one.subject.start_offset): one
        for one in _confirmed(connection, frame.cluster.id, HANGING)
    }
    victims = read_victims(connection, frame.cluster.id)
    return links(judged, victims, hanging, limits_of(frame.body["configs"]), frame.now_ms)


def _confirmed(connection: Connection, cluster_id: int, *kinds: str) -> list[Finding]:
    selection = FindingSelection(frozenset(kinds), frozenset({CONFIRMED}))
    return read_findings.read_page(connection, cluster_id, selection, None, SHOWN)[0]

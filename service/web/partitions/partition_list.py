"""The page of partitions that hide records from read_committed consumers, and of those that cannot be observed."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy import Connection

from service.store.queries.blocked_groups import read_victims
from service.store.queries.judged_partitions import MOST_JUDGED
from service.store.queries.pipeline import SILENT_READ, read_silent
from service.web.partitions.rows import StandingRow, mini_of, ordered, read_standing
from service.web.shared.frame import Frame, framed
from service.web.shared.paging import PageNumber, paged
from service.web.shared.render import render

_SORT_TEXTS: Final = (("worst", "worst first"), ("hidden", "hidden records"), ("since", "stands still for"))

router = APIRouter(include_in_schema=False)


@router.get("/clusters/{cluster}/partitions")
def get_partitions(
    request: Request,
    cluster: str,
    show: Literal["hidden", "waiting", "unknown"] = "hidden",
    topic: Annotated[str, Query(max_length=249)] = "",
    sort: Literal["worst", "hidden", "since"] = "worst",
    page: PageNumber = 1,
) -> Response:
    """Returns the page; 404 if the store does not know the cluster."""
    with framed(request, cluster) as (connection, frame):
        return _partitions(connection, frame, show, topic.strip(), sort, page)


def _partitions(connection: Connection, frame: Frame, show: str, topic: str, sort: str, page: int) -> Response:
    rows = read_standing(connection, frame, frame.standing, read_victims(connection, frame.cluster.id))
    silent = [] if show == "waiting" else read_silent(connection, frame.cluster.id, topic)
    chosen = ordered((row for row in rows if topic in row.link.topic and _is_shown(row, show)), sort)
    shown = paged(chosen, page)
    return render(
        "partitions.html",
        frame,
        page="partitions",
        shown=shown,
        minis={row.link.place: mini_of(row.link) for row in shown.rows},
        silent=silent if shown.after is None else [],
        is_silent_later=bool(silent) and shown.after is not None,
        is_silent_cut=len(silent) >= SILENT_READ,
        counts=frame.body["partitions"],
        waiting=sum(bool(row.link.waiting) for row in rows),
        not_judged=max(frame.body["partitions"]["blocked"] - MOST_JUDGED, 0),
        most_judged=MOST_JUDGED,
        query={"show": show, "topic": topic or None, "sort": sort},
        sorts=_SORT_TEXTS,
    )


def _is_shown(row: StandingRow, show: str) -> bool:
    """Returns True if the filter `show` selects the row. `hidden` selects all, also those with an unknown blocker."""
    return show == "hidden" or (row.is_unknown if show == "unknown" else bool(row.link.waiting))

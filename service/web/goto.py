"""Go to: what was typed leads to a page, or to a few to choose from."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from service.web.goto_hits import MOST_SHOWN, find
from service.web.pages import framed
from service.web.shared.addresses import page_of
from service.web.shared.render import render

LONGEST: Final = 40_000
"""Characters: a transactional.id has 32,767 bytes at most, some shown as escapes."""

router = APIRouter(include_in_schema=False)


@router.get("/clusters/{cluster}/goto")
def goto(request: Request, cluster: str, q: str = "") -> Response:
    """303 to the one page that is meant; 200 with what there is to choose from, or with why there is nothing; 404 for a
    cluster that the store does not know."""
    text = q.strip()[:LONGEST]
    with framed(request, cluster) as (connection, frame):
        hits = find(connection, frame.cluster, q[:LONGEST]) if text else []
        if len(hits) == 1:
            return RedirectResponse(hits[0].href, 303)
        return render(
            "goto.html",
            frame,
            page="goto",
            text=text,
            hits=hits[:MOST_SHOWN],
            all_address=page_of(frame.name, "transactions", q=text) if len(hits) > MOST_SHOWN else None,
        )

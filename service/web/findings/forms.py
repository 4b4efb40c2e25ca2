"""The forms on the page of a finding, which mute or acknowledge it: for operators, and without script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool

from service.api.http.audit import LONGEST_REASON, SHORTEST_REASON, acknowledge, mute
from service.api.http.parameters import unusable
from service.api.http.state import App
from service.domain.duration_text import span_ms
from service.store.finding_marks import Wish
from service.views.addresses import finding_page

CHOICES: Final = (("1h", "1 hour"), ("4h", "4 hours"), ("24h", "1 day"), ("7d", "1 week"))
"""Durations to choose from, and their texts."""

_LARGEST: Final = 20_000

router = APIRouter(include_in_schema=False)


@router.post("/clusters/{cluster}/findings/{finding}/mute")
async def mute_finding(request: Request, app: App, cluster: str, finding: str) -> Response:
    """Mutes the finding and redirects (303) to its page. Raises ProblemError as `service.api.http.audit.mute` does, and
    422 for invalid fields."""
    fields = await _fields(request)
    reason = _reason(fields)
    try:
        until_ms = app.now_ms() + span_ms(fields.get("for", [""])[0])
    except ValueError as error:
        raise unusable("for", str(error)) from None
    await run_in_threadpool(mute, app, request, cluster, Wish(finding, None, None, until_ms, reason))
    return RedirectResponse(finding_page(cluster, finding), 303)


@router.post("/clusters/{cluster}/findings/{finding}/acknowledge")
async def acknowledge_finding(request: Request, app: App, cluster: str, finding: str) -> Response:
    """Acknowledges the finding and redirects (303) to its page. Raises ProblemError as
    `service.api.http.audit.acknowledge` does, and 422 for an invalid reason."""
    reason = _reason(await _fields(request))
    await run_in_threadpool(acknowledge, app, request, cluster, finding, reason)
    return RedirectResponse(finding_page(cluster, finding), 303)


async def _fields(request: Request) -> dict[str, list[str]]:
    body = await request.body()
    return parse_qs(body[:_LARGEST].decode("utf-8", "replace"))


def _reason(fields: Mapping[str, Sequence[str]]) -> str:
    reason = fields.get("reason", [""])[0].strip()
    if not SHORTEST_REASON <= len(reason) <= LONGEST_REASON:
        raise unusable("reason", f"a reason has {SHORTEST_REASON} to {LONGEST_REASON} characters")
    return reason

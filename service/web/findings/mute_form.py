"""The form that mutes a finding, on its page: for operators, and without script."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool

from service.api.http.parameters import unusable
from service.api.routes.mutes import LONGEST_REASON, mute
from service.domain.duration_text import span_ms
from service.store.mutes import Wish
from service.web.shared.addresses import finding_page

CHOICES: Final = (("1h", "1 hour"), ("4h", "4 hours"), ("24h", "1 day"), ("7d", "1 week"))
"""Durations to choose from, and their texts."""

_LARGEST: Final = 20_000

router = APIRouter(include_in_schema=False)


@router.post("/clusters/{cluster}/findings/{finding}/mute")
async def mute_finding(request: Request, cluster: str, finding: str) -> Response:
    """Mutes the finding and redirects (303) to its page. ProblemError as `service.api.routes.mutes.mute`, and 422 for
    fields that cannot be."""
    body = await request.body()
    fields = parse_qs(body[:_LARGEST].decode("utf-8", "replace"))
    reason = fields.get("reason", [""])[0].strip()
    if not 3 <= len(reason) <= LONGEST_REASON:
        raise unusable("reason", f"a reason has 3 to {LONGEST_REASON} characters")
    try:
        until_ms = request.app.state.now_ms() + span_ms(fields.get("for", [""])[0])
    except ValueError as error:
        raise unusable("for", str(error)) from None
    await run_in_threadpool(mute, request, cluster, Wish(finding, None, None, until_ms, reason))
    return RedirectResponse(finding_page(cluster, finding), 303)

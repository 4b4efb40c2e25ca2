"""Whether the service is alive, whether it can answer, and which version it is."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from service.api.http.problems import describe
from service.api.http.store import store_of

router = APIRouter(tags=["service"])


class Version(BaseModel):
    """What answers here."""

    name: str
    version: str


_TEXT: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


@router.get("/-/healthy", operation_id="getHealthy", response_class=Response, responses=_TEXT)
async def get_healthy() -> Response:
    """The process answers; nothing else is looked at."""
    return Response("OK\n", media_type="text/plain")


@router.get("/-/ready", operation_id="getReady", response_class=Response, responses={**_TEXT, **describe(503)})
def get_ready(request: Request) -> Response:
    """The store answers and is at head. What can be judged is in `/api/v1/clusters`."""
    store_of(request).check()
    return Response("OK\n", media_type="text/plain")


@router.get("/version", operation_id="getVersion")
async def get_version(request: Request) -> Version:
    """The version of txnscope."""
    return Version(name="txnscope", version=request.app.version)

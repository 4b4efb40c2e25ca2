"""GET /metrics (rendered by `service.metrics`), /-/healthy, /-/ready and /version.

These routes have threads and store connections of their own, so other requests do not delay them.
"""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from service.api.http.kafka import OwnThreads
from service.api.http.problems import describe
from service.api.http.state import App

router = APIRouter(tags=["service"])

_threads: Final = OwnThreads("health and metrics", 4)

_EXPOSITION: Final[dict[str, Any]] = {"schema": {"type": "string"}}


@router.get(
    "/metrics",
    operation_id="getMetrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": _EXPOSITION, "application/openmetrics-text": _EXPOSITION}}},
)
async def get_metrics(request: Request, app: App) -> Response:
    """Returns Prometheus metrics, as text 0.0.4 or OpenMetrics 1.0 by `Accept`.

    Parameters are ignored: scrapers add them.
    """
    now_ms = app.now_ms()
    accept, encoding = request.headers.get("accept", ""), request.headers.get("accept-encoding", "")
    body, headers = await _threads.run(lambda: app.metrics.render(accept, encoding, now_ms))
    return Response(body, headers=headers)


class Version(BaseModel):
    """The name and version of the service."""

    name: str
    version: str


_TEXT: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


@router.get("/-/healthy", operation_id="getHealthy", response_class=Response, responses=_TEXT)
async def get_healthy() -> Response:
    """Answers as long as the process runs; nothing else is checked."""
    return Response("OK\n", media_type="text/plain")


@router.get("/-/ready", operation_id="getReady", response_class=Response, responses={**_TEXT, **describe(503)})
async def get_ready(app: App) -> Response:
    """Answers OK if this version can read the store. If a newer version has added to the store, a second line says so.
    `/api/v1/clusters` shows what can be judged."""
    await _threads.run(app.watched_store.check)
    newer = app.watched_store.newer
    return Response("OK\n" if newer is None else f"OK\n{newer}\n", media_type="text/plain")


@router.get("/version", operation_id="getVersion")
async def get_version(request: Request) -> Version:
    """Returns the version of txnscope."""
    return Version(name="txnscope", version=request.app.version)

"""GET /metrics: what `service.metrics` renders, over HTTP."""

from __future__ import annotations

import time
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from service.metrics.page import Metrics

router = APIRouter(tags=["service"])


_TEXT: Final[dict[str, Any]] = {"schema": {"type": "string"}}


@router.get(
    "/metrics",
    operation_id="getMetrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": _TEXT, "application/openmetrics-text": _TEXT}}},
)
def get_metrics(request: Request) -> Response:
    """Prometheus metrics, as text 0.0.4 or OpenMetrics 1.0 by `Accept`. Parameters are ignored: scrapers add them."""
    metrics = request.app.state.metrics
    assert isinstance(metrics, Metrics)
    now_ms = time.time_ns() // 1_000_000
    body, headers = metrics.render(
        request.headers.get("accept", ""), request.headers.get("accept-encoding", ""), now_ms
    )
    return Response(body, headers=headers)

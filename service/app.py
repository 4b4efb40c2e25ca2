"""The service: REST, metrics and pages over the store, put together step by step."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI
from sqlalchemy import Engine
from starlette.staticfiles import StaticFiles

from service.api import (
    clusters,
    coordinators,
    events,
    expiring,
    findings,
    groups,
    health,
    landing,
    ledger,
    metrics,
    offsets,
    partitions,
    producers,
    rates,
    resolve,
    timeline,
    transactions,
)
from service.api.head import HeadAsGet
from service.api.kafka import Kafka
from service.api.links import API
from service.api.problems import Problem, answer_errors_as_problems
from service.api.security import SecurityHeaders
from service.api.store import Store
from service.kafka.settings import ClientSettings
from service.metrics import create_metrics
from service.metrics.http import HttpMetrics
from service.store.engine import open_reader

_ASSETS: Final = Path(__file__).parent / "api" / "assets"
_MAX_BODY: Final = 1_000_000


def create_app(
    store_url: str,
    version: str = "unknown",
    kafka: ClientSettings | None = None,
    operators: Mapping[str, str] | None = None,
) -> FastAPI:
    """An ASGI application that reads the store; nothing is connected before the first request.

    StoreError: the URL is no store. A store that does not answer, or is not at head, makes requests answer 503; so do
    the few that have to ask Kafka, where there is no `kafka`. `operators`: keys by name of those who may resolve.
    """
    engine = open_reader(store_url)
    app = _application(engine, version)
    app.state.store = Store(engine)
    app.state.store_url = store_url
    app.state.kafka = Kafka(kafka)
    app.state.operators = dict(operators or {})
    app.state.metrics = create_metrics(engine)
    answer_errors_as_problems(app)
    for room in (
        clusters,
        coordinators,
        transactions,
        timeline,
        rates,
        producers,
        expiring,
        findings,
        events,
        groups,
        offsets,
        partitions,
        ledger,
        resolve,
    ):
        app.include_router(room.router, prefix=API)
    for room in (health, metrics, landing):
        app.include_router(room.router)
    app.include_router(events.router, include_in_schema=False)  # the same stream where pages look for it
    app.mount("/assets", StaticFiles(directory=_ASSETS))
    app.add_middleware(HeadAsGet)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(HttpMetrics, metrics=app.state.metrics)
    _describe_problems(app)
    return app


def _application(engine: Engine, version: str) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        app.state.kafka.close()
        engine.dispose()

    return FastAPI(
        title="txnscope",
        summary="What every Kafka transaction is doing, and what it ended in.",
        version=version,
        docs_url=None,  # the framework's pages load their scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        max_body_size=_MAX_BODY,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )


def _describe_problems(app: FastAPI) -> None:
    """The routes name the Problem; the document has to hold it."""
    describe_routes = app.openapi

    def openapi() -> dict[str, Any]:
        document = describe_routes()
        schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        parts = schema.pop("$defs", {})
        for name, part in {**parts, "Problem": schema}.items():
            document["components"]["schemas"].setdefault(name, part)
        return document

    app.openapi = openapi  # type: ignore[method-assign]

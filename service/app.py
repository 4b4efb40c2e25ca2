"""Assembles the service: REST, metrics and pages over the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from sqlalchemy import Engine
from starlette.routing import BaseRoute
from starlette.staticfiles import StaticFiles

from service import web
from service.access.credentials import StoredKey
from service.api.http.access import Access, AccessConfig, AccessControl, check_declared, describe_access
from service.api.http.answers import Answers, HeadAsGet
from service.api.http.audit import record_refusals
from service.api.http.fields import API
from service.api.http.kafka import Brokers
from service.api.http.parameters import describe_absence
from service.api.http.problems import Problem, answer_errors_as_problems
from service.api.http.security import SecurityHeaders
from service.api.http.state import AppState, Store
from service.api.routes import (
    audit,
    clusters,
    events,
    finding_marks,
    findings,
    health,
    history,
    ledger,
    partitions,
    resolve,
    transactions,
)
from service.clock import wall_clock_ms
from service.kafka.settings import Clients, ClientSettings
from service.metrics.page import Metrics
from service.metrics.requests import HttpMetrics
from service.notifications.feed import EventFeed
from service.processes.lifeline import BEAT_EVERY_S
from service.store import api_keys
from service.store.engine import DataVersions, open_reader
from service.web.shared.render import answer_errors_of_pages

_MAX_BODY: Final = 1_000_000


def create_app(
    store_url: str,
    version: str = "unknown",
    kafka: ClientSettings | None = None,
    operators: Mapping[str, str] | None = None,
    now_ms: Callable[[], int] = wall_clock_ms,
    beat: Callable[[], None] | None = None,
    access: AccessConfig | None = None,
    clusters: Mapping[str, ClientSettings] | None = None,
    remediation: Clients | None = None,
) -> FastAPI:
    """Returns an ASGI application that reads the store; it connects to nothing before the first request.

    Raises StoreError if the URL is no store. Requests answer 503 if the store does not answer or is not at head. The
    few requests that need Kafka also answer 503 if `kafka` is None and the cluster is none of `clusters`, which have
    brokers of their own. `remediation`: the clients that write markers; None: the clients of `kafka` and `clusters`.
    `access`: who may send requests, and under which host names; None: anyone who reaches the service may read.
    `operators`: the keys, by name, of operators who may change things in all clusters. `now_ms`: the clock for the ages
    on pages, and for the sources that REST reports as stalled. `beat` is called once a second while the event loop
    runs.
    """
    engine, watching = open_reader(store_url), open_reader(store_url)
    data_versions = DataVersions(engine)
    app = _application((engine, watching), data_versions, version, beat)
    store, asking = Store(engine), Clients(kafka, clusters or {})
    state = AppState(
        store=store,
        watched_store=Store(watching),
        store_url=store_url,
        kafka=Brokers(*asking),
        remediation_kafka=Brokers(*(remediation or asking)),
        configured_clusters=tuple(clusters or ()),
        access=_access(access or AccessConfig(), operators or {}, store, store_url),
        now_ms=now_ms,
        event_feed=EventFeed(store.read, events.sent),
        answers=Answers(data_versions, now_ms),
        metrics=Metrics(watching),
    )
    app.state.txnscope = state
    answer_errors_as_problems(app)
    answer_errors_of_pages(app)
    app.mount("/static", StaticFiles(directory=web.STATIC))
    app.add_middleware(HeadAsGet)
    app.add_middleware(AccessControl, access=state.access)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(HttpMetrics, requests=state.metrics.requests)
    _describe(app)
    return app


@cache
def _routes() -> list[BaseRoute]:
    """Returns the routes, which all applications of this process share: building their pydantic schemas takes 0.3 s of
    CPU."""
    everything = APIRouter()
    for room in (
        *(clusters.router, transactions.router, history.router, findings.router, events.router, partitions.offsets),
        *(partitions.router, partitions.groups, ledger.router, resolve.router, finding_marks.acknowledgements),
        *(audit.router, finding_marks.router, finding_marks.lists),
    ):
        everything.include_router(room, prefix=API)
    everything.include_router(health.router)
    everything.include_router(events.router, include_in_schema=False)  # the same stream at the path that pages use
    for page in web.ROOMS:
        everything.include_router(page.router)
    check_declared(everything.routes)
    return everything.routes


def _access(config: AccessConfig, operators: Mapping[str, str], store: Store, store_url: str) -> Access:
    def read_keys() -> Sequence[StoredKey]:
        with store.read() as connection:
            return api_keys.read_valid(connection)

    return Access(config.auth, operators, config.hosts, read_keys, partial(record_refusals, store_url))


def _application(
    engines: Iterable[Engine], data_versions: DataVersions, version: str, beat: Callable[[], None] | None
) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        beating = None if beat is None else asyncio.create_task(_beats(beat))
        yield
        if beating is not None:
            beating.cancel()
        state: AppState = app.state.txnscope
        await state.access.flush()
        state.kafka.close()
        state.remediation_kafka.close()
        data_versions.close()
        for engine in engines:
            engine.dispose()

    return FastAPI(
        title="txnscope",
        summary="Shows what every Kafka transaction is doing, and how it ended.",
        version=version,
        docs_url=None,  # the framework's pages load scripts from other hosts
        redoc_url=None,
        routes=_routes(),
        lifespan=lifespan,
        max_body_size=_MAX_BODY,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )


async def _beats(beat: Callable[[], None]) -> None:
    """Calls `beat` once a second, in the event loop: if the loop is blocked, the beats stop."""
    while True:
        beat()
        await asyncio.sleep(BEAT_EVERY_S)


def _describe(app: FastAPI) -> None:
    """Adds to the OpenAPI document what the framework leaves out: the schema of Problem, the meaning of an absent
    parameter, and the access that each route needs."""
    describe_routes = app.openapi

    def openapi() -> dict[str, Any]:
        document = describe_routes()
        schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        parts = schema.pop("$defs", {})
        for name, part in {**parts, "Problem": schema}.items():
            document["components"]["schemas"].setdefault(name, part)
        for operation in (operation for path in document["paths"].values() for operation in path.values()):
            for parameter in operation.get("parameters", ()):
                describe_absence(parameter)
        describe_access(document)
        schemas = document["components"]["schemas"]  # words that stand where they are used are declared once more
        document["components"]["schemas"] = {
            name: part for name, part in schemas.items() if f"'#/components/schemas/{name}'" in str(document)
        }
        return document

    app.openapi = openapi  # type: ignore[method-assign]

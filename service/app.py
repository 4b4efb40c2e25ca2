"""Assembles the service: REST, metrics and pages over the store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

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
    applications,
    audit,
    clusters,
    events,
    finding_marks,
    findings,
    health,
    history,
    ledger,
    notifications,
    partitions,
    resolve,
    transactions,
)
from service.api.schemas.findings import Finding as FindingBody
from service.api.schemas.shape import to_json
from service.canary.configuration import CanaryTable
from service.clock import wall_clock_ms
from service.domain.findings.finding import Finding
from service.kafka.settings import Clients, ClientSettings
from service.metrics.page import Metrics
from service.metrics.requests import HttpMetrics
from service.notifications.configuration import NotifyTable
from service.notifications.delivery import Outbox
from service.notifications.feed import EventFeed
from service.notifications.notification import TEST, TRIAL_CLUSTER, Notification, trial_finding
from service.notifications.notifier import Configured, Notifier
from service.notifications.receivers import receiver_of
from service.otlp.configuration import OtlpTable
from service.processes.lifeline import BEAT_EVERY_S
from service.store import api_keys
from service.store.engine import DataVersions, open_engine, open_reader
from service.store.queries.clusters import all_clusters
from service.views.addresses import finding_page
from service.web.shared.render import answer_errors_of_pages

if TYPE_CHECKING:
    from service.canary.canary import Canary
    from service.mcp.http import McpEndpoint
    from service.otlp.exporter import Exporter

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
    mcp: McpEndpoint | None = None,
) -> FastAPI:
    """Returns an ASGI application that reads the store. The application connects to nothing before the first request.
    Raises StoreError if the URL is no store. Requests that need the store are answered with 503 if the store does not
    answer, or if this version cannot read its tables.

    - `clusters`: the clusters with brokers of their own; `kafka`: the brokers of all other clusters. The few requests
      that need Kafka answer 503 for a cluster without brokers. `remediation`: the clients that write markers; None: the
      clients of `kafka` and `clusters`.
    - `access`: who may send requests, and under which host names; None: anyone who reaches the service may read.
      `operators`: a mapping from the name of each operator who may change things in all clusters to that operator's
      key.
    - `mcp`: the endpoint for language models; None: there is none.
    - `now_ms`: the wall clock. `beat`: called once a second while the event loop runs.
    """
    engine, watching = open_reader(store_url), open_reader(store_url)
    data_versions = DataVersions(engine)
    app = _application((engine, watching), data_versions, version, beat, mcp)
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
    if mcp is not None:
        app.router.routes.append(mcp.route)
    app.add_middleware(HeadAsGet)
    app.add_middleware(AccessControl, access=state.access)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(HttpMetrics, requests=state.metrics.requests)
    _describe(app)
    return app


def create_notifier(store_url: str, tables: Sequence[NotifyTable], base: str) -> Notifier:
    """Returns the notifier of the receivers in `tables`; `start` starts it. `base`: the address of the pages."""
    reading, writing = open_reader(store_url), open_engine(store_url, must_exist=True)

    def watched_clusters() -> Sequence[str]:
        with reading.connect() as connection:
            return [cluster.kafka_cluster_id for cluster in all_clusters(connection)]

    configured = [
        Configured(
            Outbox(reading, writing, table.name, table.kind, table.wanted, partial(_rendered, base)),
            receiver_of(table, base, watched_clusters),
        )
        for table in tables
    ]
    return Notifier(writing, configured, wall_clock_ms, time.monotonic)


def create_canaries(store_url: str, plans: Sequence[tuple[ClientSettings, CanaryTable]]) -> list[Canary]:
    """Returns the canaries of the clusters; `start` starts each one."""
    if not plans:
        return []
    # imported here, because only those who have a canary need its library
    from service.canary.canary import Canary
    from service.canary.coordinator_rounds import Clocks
    from service.canary.running import Plan

    clocks = Clocks(wall_clock_ms, time.monotonic)
    return [
        Canary(
            open_engine(store_url, must_exist=True),
            Plan(settings, table.topic, table.every, table.coordinators),
            clocks,
        )
        for settings, table in plans
    ]


def create_exporter(app: FastAPI, table: OtlpTable, instance: str, base: str | None) -> Exporter:
    """Returns the exporter of the application; `start` starts it. `instance`: distinguishes this service from all
    others. `base`: the public address of the pages, for links; None: there is none. Raises ModuleNotFoundError without
    the extra `otlp`."""
    from service.otlp.exporter import Exporter, Identity  # imported here, because its libraries are an extra

    state: AppState = app.state.txnscope
    reading, writing = open_reader(state.store_url), open_engine(state.store_url, must_exist=True)
    return Exporter(reading, writing, state.metrics, table, Identity(app.version, instance), base, state.now_ms)


def trial_notification(base: str) -> Notification:
    """Returns a test notification for receivers. Its text says that it is a test."""
    now_ms = wall_clock_ms()
    finding = trial_finding(now_ms)
    return Notification(0, TEST, now_ms, TRIAL_CLUSTER, finding, *_rendered(base, TRIAL_CLUSTER, finding))


def _rendered(base: str, cluster: str, finding: Finding) -> tuple[str, str]:
    """Returns the finding as REST shows it, and the address of its page."""
    return to_json(FindingBody.of(finding, cluster)).decode(), base + finding_page(cluster, finding.id)


@cache
def _routes() -> list[BaseRoute]:
    """Returns the routes, which all applications of this process share: building their pydantic schemas takes 0.3 s of
    CPU."""
    everything = APIRouter()
    for room in (
        *(clusters.router, transactions.router, history.router, findings.router, events.router, partitions.offsets),
        applications.router,
        *(partitions.router, partitions.groups, ledger.router, resolve.router, finding_marks.acknowledgements),
        *(audit.router, finding_marks.router, finding_marks.lists, notifications.router),
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
    engines: Iterable[Engine],
    data_versions: DataVersions,
    version: str,
    beat: Callable[[], None] | None,
    mcp: McpEndpoint | None,
) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        beating = None if beat is None else asyncio.create_task(_beats(beat))
        async with nullcontext() if mcp is None else mcp.running():
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
    """Corrects the OpenAPI document of the framework. Adds the schema of Problem, and the credentials and refusals of
    each route. Removes null from optional parameters, and the schemas that nothing refers to."""
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
        schemas = document["components"]["schemas"]  # drops the schemas that no $ref names: they are written inline
        document["components"]["schemas"] = {
            name: part for name, part in schemas.items() if f"'#/components/schemas/{name}'" in str(document)
        }
        return document

    app.openapi = openapi  # type: ignore[method-assign]

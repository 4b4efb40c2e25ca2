"""Writes the missing marker of a hanging transaction, for people who may: a dry run unless they say otherwise."""

from __future__ import annotations

import hmac
import time
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Request, Response
from pydantic import BaseModel, ConfigDict

from service import remediation
from service.api.answers import answer
from service.api.clusters import known_cluster
from service.api.fields import text_of_time
from service.api.kafka import kafka_of
from service.api.models_resolve import Resolution
from service.api.parameters import only_known
from service.api.problems import KAFKA_REFUSED, NO_SUCH_FINDING, NOT_ALLOWED, NOT_NOW, ProblemError, describe
from service.api.store import store_of
from service.domain.findings.finding import Finding
from service.remediation import Refused, WayOut
from service.store import audit, read_findings
from service.store.audit import Attempt
from service.store.engine import open_engine
from service.store.read import ClusterRow

_BEARER: Final = "Bearer "

router = APIRouter(tags=["findings"], dependencies=[Depends(only_known)])


class Wish(BaseModel):
    """What is asked for."""

    model_config = ConfigDict(extra="forbid")

    dry_run: bool = True


@router.post(
    "/clusters/{cluster}/findings/{finding}/resolve",
    operation_id="resolveFinding",
    response_model=Resolution,
    responses=describe(403, 404, 409, 422, 502, 503),
)
def resolve_finding(
    request: Request,
    cluster: str,
    finding: str,
    wish: Wish | None = None,
    authorization: Annotated[str | None, Header(description="Bearer, and the key of an operator.")] = None,
) -> Response:
    """Look at everything again, then write the marker that the coordinator's decision calls for; or say what would be
    written (`dry_run`, the default). Every attempt to write is kept in the audit."""
    operator = _operator(request, authorization)
    dry_run = wish is None or wish.dry_run
    store = store_of(request)
    with store.read() as connection:
        found = known_cluster(connection, cluster)
        one = read_findings.find(connection, found.id, finding)
    if one is None:
        raise ProblemError(404, NO_SUCH_FINDING, f"cluster {found.name!r} has no finding {finding[:64]!r}")
    with kafka_of(request).asking(found) as client:
        try:
            way = remediation.way_out(one, found.id, client, store.read, _now_ms)
        except Refused as refused:
            raise ProblemError(409, NOT_NOW, ". First: ".join([str(refused), *refused.steps[:1]])) from refused
        if not dry_run:
            _write(request, found, one, way, operator, partial(remediation.write, client))
    return answer(request, _body(one, way, dry_run=dry_run), way.checked_at_ms)


def _operator(request: Request, authorization: str | None) -> str:
    """Whose key it is."""
    operators: Mapping[str, str] = request.app.state.operators
    if not operators:
        raise ProblemError(
            403, NOT_ALLOWED, "resolving is off: give operators keys, [operators] in the configuration of the service"
        )
    key = (authorization or "").removeprefix(_BEARER).encode()
    names = [name for name, known in operators.items() if hmac.compare_digest(known.encode(), key)]
    if not names:
        raise ProblemError(403, NOT_ALLOWED, "resolving needs the key of an operator: Authorization: Bearer KEY")
    return names[0]


def _write(request: Request, cluster: ClusterRow, finding: Finding, way: WayOut, operator: str, write: Any) -> None:
    """The audit has the attempt before Kafka has the marker, and what came of it afterwards."""
    engine = open_engine(request.app.state.store_url)
    attempt = Attempt(
        _now_ms(),
        finding.id,
        operator,
        False,
        way.marker,
        way.topic,
        way.partition,
        way.producer_id,
        way.producer_epoch,
        way.coordinator_epoch,
        way.start_offset,
        "begun",
    )
    try:
        audit.record(engine, cluster.id, attempt)
        try:
            error = write(way)
        except Exception as e:
            failed = attempt._replace(at_ms=_now_ms(), outcome="unknown", error=str(e))
            audit.record(engine, cluster.id, failed)
            raise
        outcome = "written" if error is None else "refused"
        audit.record(engine, cluster.id, attempt._replace(at_ms=_now_ms(), outcome=outcome, error=error))
    finally:
        engine.dispose()
    if error is not None:
        raise ProblemError(502, KAFKA_REFUSED, error)


def _body(finding: Finding, way: WayOut, *, dry_run: bool) -> dict[str, Any]:
    return {
        "finding_id": finding.id,
        "dry_run": dry_run,
        "executed": not dry_run,
        "marker": way.marker,
        "topic": way.topic,
        "partition": way.partition,
        "producer_id": way.producer_id,
        "producer_epoch": way.producer_epoch,
        "coordinator_epoch": way.coordinator_epoch,
        "reason": way.reason,
        "steps": list(way.steps),
        "command": finding.command,
        "checked_at": text_of_time(way.checked_at_ms),
    }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

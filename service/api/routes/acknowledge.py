"""Acknowledges findings that stay until somebody has seen them: in the name of the sender, with a reason."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from service.access.actions import Action, Outcome
from service.api.http.audit import event_of, store_writer
from service.api.http.fields import text_of_clock
from service.api.http.parameters import only_known
from service.api.http.problems import NO_SUCH_FINDING, NOT_NOW, ProblemError, describe
from service.api.routes.clusters import known_cluster
from service.api.routes.mutes import LONGEST_REASON
from service.api.schemas.findings import FindingAcknowledgement
from service.api.schemas.shape import to_json
from service.domain.findings.catalogue import UNTIL_ACKNOWLEDGED
from service.domain.findings.finding import Acknowledgement, Finding
from service.store import acknowledgements
from service.store.queries import findings

SHORTEST_REASON: Final = 3

router = APIRouter(tags=["findings"], dependencies=[Depends(only_known)])


class AcknowledgeWish(BaseModel):
    """The body of the request."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field(min_length=SHORTEST_REASON, max_length=LONGEST_REASON, pattern=r"\S")


@router.post(
    "/clusters/{cluster}/findings/{finding}/acknowledge",
    operation_id="acknowledgeFinding",
    response_model=FindingAcknowledgement,
    responses=describe(400, 403, 404, 409, 422, 503),
)
def acknowledge_finding(request: Request, cluster: str, finding: str, wish: AcknowledgeWish) -> Response:
    """Acknowledges a finding that stays until somebody has seen it (`lost_records`, `torn_transaction`): it resolves
    about a second later, and keeps who acknowledged it, when and why. It changes nothing in Kafka. Needs the role
    operator.
    """
    body = FindingAcknowledgement.of(acknowledge(request, cluster, finding, wish.reason.strip()))
    return Response(to_json(body), 200, {"Cache-Control": "no-store"}, "application/json")


def acknowledge(request: Request, cluster: str, finding_id: str, reason: str) -> Acknowledgement:
    """Acknowledges the finding in the name of the sender. ProblemError: 404 for a cluster or finding that there is none
    of, 409 for a finding that resolves without it; StoreError if nothing was written."""
    event = event_of(request, Action.ACKNOWLEDGE, Outcome.SET, finding_id, reason)
    with store_writer(request.app.state.store_url) as engine, engine.begin() as connection:
        found = known_cluster(connection, cluster)
        one = findings.find(connection, found.id, finding_id)
        if one is None:
            raise ProblemError(404, NO_SUCH_FINDING, f"cluster {found.name!r} has no finding {finding_id[:64]!r}")
        if (why := _why_not(one)) is not None:
            raise ProblemError(409, NOT_NOW, why)
        return acknowledgements.acknowledge(connection, found.id, one, reason, event)


def _why_not(finding: Finding) -> str | None:
    if finding.kind not in UNTIL_ACKNOWLEDGED:
        kinds = " and ".join(sorted(UNTIL_ACKNOWLEDGED))
        return f"a finding of kind {finding.kind} ends without it; only {kinds} stay until acknowledged"
    if (given := finding.acknowledgement) is not None:
        return f"{given.by} acknowledged it at {text_of_clock(given.at_ms)}: {given.reason}"
    return None if finding.is_open else "it is resolved"

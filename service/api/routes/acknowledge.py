"""Acknowledges findings that stay until somebody has seen them: in the name of the sender, with a reason."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from service.api.http.parameters import only_known
from service.api.http.problems import describe
from service.api.http.state import App
from service.api.http.writes import LONGEST_REASON, SHORTEST_REASON, acknowledge
from service.api.schemas.findings import FindingAcknowledgement
from service.api.schemas.shape import to_json

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
def acknowledge_finding(request: Request, app: App, cluster: str, finding: str, wish: AcknowledgeWish) -> Response:
    """Acknowledges a finding that stays until somebody has seen it (`lost_records`, `torn_transaction`): it resolves
    about a second later, and keeps who acknowledged it, when and why. It changes nothing in Kafka. Needs the role
    operator.
    """
    body = FindingAcknowledgement.of(acknowledge(app, request, cluster, finding, wish.reason.strip()))
    return Response(to_json(body), 200, {"Cache-Control": "no-store"}, "application/json")

"""Mutes and acknowledgements, which operators set on findings in their own name and with a reason. A mute has an end.
An acknowledgement is for findings that stay open until somebody acknowledges them.
"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request, Response
from fastapi import Query as QueryParameter
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from service.access.actions import Action, Outcome
from service.api.http.answers import KeptRouter, answer_once, answer_page
from service.api.http.audit import LONGEST_REASON, SHORTEST_REASON, acknowledge, event_of, mute, store_writer
from service.api.http.paging import LIMIT, Cursor, Limit, cut
from service.api.http.parameters import only_known
from service.api.http.problems import NO_SUCH_MUTE, ProblemError, describe
from service.api.http.state import App, known_cluster
from service.api.schemas.access import Mute, Mutes
from service.api.schemas.findings import FindingAcknowledgement
from service.store import finding_marks
from service.store.finding_marks import Wish, read_mutes

_TOPIC: Final = r"^[A-Za-z0-9._*?\[\]!-]{1,249}$"

router = APIRouter(tags=["access"], dependencies=[Depends(only_known)])
lists = KeptRouter("access")


class MuteWish(BaseModel):
    """The body of a request that sets a mute. It has exactly one of `finding`, `prefix` and `topic`."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"minProperties": 3})

    finding: str | None = Field(None, min_length=1, max_length=64, description="The id of one finding.")
    prefix: str | None = Field(
        None, min_length=1, max_length=1_000, description="Findings about ids whose display form begins with this text."
    )
    topic: str | None = Field(None, pattern=_TOPIC, description="Findings about topics that match this glob.")
    until: AwareDatetime = Field(description="The end, at most 90 days from now.")
    reason: str = Field(min_length=SHORTEST_REASON, max_length=LONGEST_REASON, pattern=r"\S")

    @model_validator(mode="after")
    def _has_one_subject(self) -> MuteWish:
        if sum(one is not None for one in (self.finding, self.prefix, self.topic)) != 1:
            raise ValueError("give exactly one of finding, prefix and topic")
        return self


@lists.read("/clusters/{cluster}/mutes", "listMutes", Mutes)
def list_mutes(app: App, cluster: str, limit: Limit = LIMIT, cursor: Cursor = None) -> Response:
    """Lists the mutes that operators set and that are in effect, ordered by their end. Mutes of `[[rules]]` are not
    listed: `muted_until` of a finding shows them.
    """
    now_ms = app.now_ms()
    with app.store.read() as connection:
        found = read_mutes(connection, known_cluster(connection, cluster).id, now_ms)
    page, next_cursor = cut(found, lambda mute: (mute.wish.until_ms, mute.id), limit, cursor, cluster, "mutes")
    return answer_page(Mutes, [Mute.of(mute) for mute in page], next_cursor, now_ms)


@router.post(
    "/clusters/{cluster}/mutes",
    operation_id="setMute",
    status_code=201,
    response_model=Mute,
    responses=describe(400, 403, 404, 422, 503),
)
def set_mute(request: Request, app: App, cluster: str, wish: MuteWish) -> Response:
    """Mutes findings until a time: pages list them last, and the verdict on the cluster does not count them.
    Prometheus' alerts still fire. Receivers of `[[notify]]` are notified of findings that are still open when the mute
    ends. Needs the role operator."""
    given = Wish(wish.finding, wish.prefix, wish.topic, int(wish.until.timestamp() * 1000), wish.reason.strip())
    return answer_once(Mute.of(mute(app, request, cluster, given)), 201)


@router.delete(
    "/clusters/{cluster}/mutes",
    operation_id="endMute",
    status_code=204,
    response_class=Response,
    responses=describe(400, 403, 404, 422, 503),
)
def end_mute(
    request: Request,
    app: App,
    cluster: str,
    id: Annotated[int, QueryParameter(ge=1, lt=2**63, description="The id of the mute.")],  # noqa: A002
) -> Response:
    """Ends a mute before its time. Needs the role operator."""
    with app.store.read() as connection:
        found = known_cluster(connection, cluster)
    event = event_of(request, app.now_ms(), Action.MUTE, Outcome.ENDED, str(id), "")
    with store_writer(app.store_url) as engine, engine.begin() as connection:
        if not finding_marks.end_mute(connection, found.id, id, event):
            raise ProblemError(404, NO_SUCH_MUTE, f"cluster {found.name!r} has no mute {id} in effect")
    return Response(status_code=204, headers={"Cache-Control": "no-store"})


acknowledgements = APIRouter(tags=["findings"], dependencies=[Depends(only_known)])


class AcknowledgeWish(BaseModel):
    """The body of a request that acknowledges a finding."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field(min_length=SHORTEST_REASON, max_length=LONGEST_REASON, pattern=r"\S")


@acknowledgements.post(
    "/clusters/{cluster}/findings/{finding}/acknowledge",
    operation_id="acknowledgeFinding",
    response_model=FindingAcknowledgement,
    responses=describe(400, 403, 404, 409, 422, 503),
)
def acknowledge_finding(request: Request, app: App, cluster: str, finding: str, wish: AcknowledgeWish) -> Response:
    """Acknowledges a finding of a kind that stays open until acknowledged (`lost_records`, `torn_transaction`). The
    finding resolves about a second later, and records who acknowledged it, when and why. Nothing changes in Kafka.
    Needs the role operator.
    """
    return answer_once(FindingAcknowledgement.of(acknowledge(app, request, cluster, finding, wish.reason.strip())))

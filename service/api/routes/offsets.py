"""Explains offsets of a partition: who wrote them, and how their transactions ended.

Spans are read from the partition's log; owners and causes come from the store.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi import Path as PathParameter
from fastapi import Query as QueryParameter

from service.api.http.answers import answer, unless_known
from service.api.http.kafka import explained
from service.api.http.parameters import only_known, unusable
from service.api.http.problems import describe
from service.api.http.state import App
from service.api.http.store import known_cluster
from service.api.schemas.offsets import Explanation

_LAST = 2**63 - 1

Partition = Annotated[int, PathParameter(ge=0, lt=2**31)]

router = APIRouter(tags=["partitions"], dependencies=[Depends(only_known)])


@router.get(
    "/clusters/{cluster}/partitions/{topic}/{partition}/offsets/{offset}",
    operation_id="explainOffsets",
    response_model=Explanation,
    responses=describe(404, 422, 429, 502, 503),
)
def explain_offsets(
    request: Request,
    app: App,
    cluster: str,
    topic: Annotated[str, PathParameter(max_length=249)],
    partition: Partition,
    offset: Annotated[int, PathParameter(ge=0, lt=_LAST)],
    to: Annotated[
        int | None, QueryParameter(le=_LAST, description="The end offset, exclusive (default: `offset` + 1).")
    ] = None,
) -> Response:
    """Lists every span from `offset` to `to` or the end of the log: who wrote its records, and whether their
    transaction was committed, aborted (why, and when) or is open. Asks Kafka, bounded in bytes and time; `truncated_at`
    is the offset at which the spans end. `only_aborted` sums up the aborted records up to the first one that
    read_committed consumers get, within bounds of its own.
    """
    end = offset + 1 if to is None else to
    if end <= offset:
        raise unusable("to", f"has to be above the offset {offset}")
    with app.store.read() as connection:
        found = known_cluster(connection, cluster)
    seen = explained(app, found, topic, partition, offset, end)
    return unless_known(request, answer(Explanation.of(seen, cluster), seen.as_of_ms))

"""The transactional ids that have or had a producer id."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi import Path as PathParameter

from service.api.http.answers import answer
from service.api.http.fields import id_b64, id_text, text_of_time, time_field, transaction_link
from service.api.http.paging import LIMIT, Cursor, Key, Limit, cut
from service.api.http.parameters import only_known
from service.api.http.problems import NO_SUCH_PRODUCER, ProblemError, describe
from service.api.http.store import store_of
from service.api.routes.clusters import known_cluster
from service.api.schemas.history import ProducerOwners
from service.store.id_key import id_key
from service.store.queries import clusters
from service.store.queries.history import Owner, read_owners

router = APIRouter(tags=["transactions"], dependencies=[Depends(only_known)])


@router.get(
    "/clusters/{cluster}/producers/{producer_id}",
    operation_id="listProducerOwners",
    response_model=ProducerOwners,
    responses=describe(400, 404, 422, 503),
)
def list_owners(
    request: Request,
    cluster: str,
    producer_id: Annotated[int, PathParameter(ge=0, lt=2**63)],
    limit: Limit = LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Lists the transactional ids that wrote under a producer id, the newest first, also those that are expired since.
    404 if none is known: the producer id belongs to a producer without transactions, or was forgotten after 90 days.
    """
    with store_of(request).read() as connection:
        found = known_cluster(connection, cluster)
        as_of_ms = clusters.log_as_of_ms(connection, found.id)
        owners = read_owners(connection, found.id, producer_id)
    if not owners:
        raise ProblemError(
            404, NO_SUCH_PRODUCER, f"cluster {found.name!r} has no transactional id with producer id {producer_id}"
        )
    page, next_cursor = cut(owners, _place, limit, cursor, cluster, "producers", producer_id)
    items = [_owner(found.name, owner) for owner in page]
    return answer(request, {"items": items, "next_cursor": next_cursor, "as_of": text_of_time(as_of_ms)}, as_of_ms)


def _place(owner: Owner) -> Key:
    """Returns the key of an owner, in the order of `read_owners`: the last seen first, then by bytes."""
    return -owner.last_seen_ms, id_key(owner.transactional_id).hex()


def _owner(cluster: str, owner: Owner) -> dict[str, Any]:
    return {
        "transactional_id": id_text(owner.transactional_id),
        **time_field("first_seen_at", owner.first_seen_ms),
        **time_field("last_seen_at", owner.last_seen_ms),
        "first_epoch": owner.first_epoch,
        "last_epoch": owner.last_epoch,
        "current": owner.current,
        "transactional_id_b64": id_b64(owner.transactional_id),
        "href": transaction_link(cluster, owner.transactional_id),
    }

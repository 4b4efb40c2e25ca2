"""The ids that their coordinators will remove because no client uses them."""

from __future__ import annotations

import struct
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi import Query as QueryParameter

from service.api.http.answers import answer
from service.api.http.fields import text_of_time
from service.api.http.paging import LIMIT, Cursor, Limit, seal, unseal
from service.api.http.parameters import Duration, only_known
from service.api.http.problems import describe
from service.api.http.store import store_of
from service.api.routes.clusters import known_cluster
from service.api.schemas.models import Transactions
from service.api.schemas.transaction_body import describe_page
from service.domain.duration_text import span_ms
from service.store.queries import clusters
from service.store.queries.expiring import ExpiringCursor, read_expiring

# when the last row was updated last (ms); the id's bytes follow
_HEAD = struct.Struct(">q")

router = APIRouter(tags=["transactions"], dependencies=[Depends(only_known)])


@router.get(
    "/clusters/{cluster}/expiring",
    operation_id="listExpiring",
    response_model=Transactions,
    responses=describe(400, 404, 422, 503),
)
def list_expiring(
    request: Request,
    cluster: str,
    within: Annotated[
        Duration, QueryParameter(description="Those that expire at most this long after `as_of`: 90s, 15m, 24h, 7d.")
    ] = "24h",
    limit: Limit = LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Lists ids by `expires_at`, the soonest first. An id expires `transactional.id.expiration.ms` after its last
    change in the transaction log; the value is the brokers', or Kafka's default. Ids past that time come first: the
    coordinator has not swept them yet. An id with an open transaction does not expire, and expired ids are not listed.
    """
    filters = (cluster, "expiring", within)
    after = None
    if cursor is not None:
        data = unseal(cursor, _HEAD.size, *filters)
        (last_update_ms,) = _HEAD.unpack_from(data)
        after = ExpiringCursor(last_update_ms, data[_HEAD.size :])
    with store_of(request).read() as connection:
        found = known_cluster(connection, cluster)
        as_of_ms = clusters.log_as_of_ms(connection, found.id)
        until_ms = (as_of_ms or 0) + span_ms(within) - found.expiration_ms
        page = read_expiring(connection, found.id, until_ms, after, limit)
        items = describe_page(connection, found, page.rows)
    cursor_after = page.after and seal(_HEAD.pack(page.after.last_update_ms) + page.after.transactional_id, *filters)
    return answer(request, {"items": items, "next_cursor": cursor_after, "as_of": text_of_time(as_of_ms)}, as_of_ms)

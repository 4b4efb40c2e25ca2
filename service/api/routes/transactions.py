"""The transactional ids of a cluster: pages of them by filter and sort, and one in full."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request, Response
from fastapi import Query as QueryParameter

from service.api.http.answers import answer
from service.api.http.fields import text_of_time
from service.api.http.paging import LIMIT, Cursor, Limit, read_cursor, write_cursor
from service.api.http.parameters import Duration, bytes_of, only_known
from service.api.http.problems import describe
from service.api.http.store import store_of
from service.api.routes.clusters import known_cluster
from service.api.routes.one_id import Id, IdBase64, id_of, known_id
from service.api.schemas.models import OneTransaction, Transactions
from service.api.schemas.transaction_body import describe_page
from service.domain.duration_text import span_ms
from service.domain.transaction_log.states import CODES, EXPIRED
from service.store.display import printable
from service.store.queries import clusters, transactions
from service.store.queries.transaction_pages import Selection

State = Literal[
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Unknown",
    "Expired",
]

router = APIRouter(tags=["transactions"], dependencies=[Depends(only_known)])


@router.get(
    "/clusters/{cluster}/transactions",
    operation_id="listTransactions",
    response_model=Transactions,
    responses=describe(400, 404, 422, 503),
)
def list_transactions(
    request: Request,
    cluster: str,
    state: Annotated[
        list[State] | None,
        QueryParameter(description="May be repeated: ids in any of these. Without it: in any but Expired."),
    ] = None,
    prefix: Annotated[
        str,
        QueryParameter(
            description="The id's first bytes, percent-encoded: they need not be UTF-8. Where no id begins so, as"
            " people see them."
        ),
    ] = "",
    min_age: Annotated[
        Duration | None, QueryParameter(description="Open for at least this long at `as_of`: 90s, 15m, 24h, 7d.")
    ] = None,
    producer_id: Annotated[
        int | None, QueryParameter(ge=0, lt=2**63, description="The id's current producer id.")
    ] = None,
    topic: Annotated[
        str | None, QueryParameter(max_length=249, description="Open transactions with a partition of this topic.")
    ] = None,
    q: Annotated[
        str, QueryParameter(max_length=1000, description="Part of `transactional_id`, upper and lower case alike.")
    ] = "",
    sort: Annotated[
        Literal["age", "transactional_id", "last_updated"],
        QueryParameter(description="age: the oldest open one first, the others by id; last_updated: the newest first."),
    ] = "age",
    limit: Limit = LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Lists transactional ids, one row each. Ids are sorted by their bytes in the transaction log."""
    raw_prefix = (bytes_of(request, "prefix") or b"") if prefix else b""
    text = (bytes_of(request, "q") or b"") if q else b""
    states = frozenset(CODES[name] for name in state) if state else frozenset(CODES.values()) - {EXPIRED}
    filters = (cluster, sort, sorted(states), raw_prefix, min_age, producer_id, topic, text)
    after = None if cursor is None else read_cursor(cursor, sort, *filters)
    with store_of(request).read() as connection:
        found = known_cluster(connection, cluster)
        as_of_ms = clusters.log_as_of_ms(connection, found.id)
        selection = Selection(
            states=states,
            prefix=transactions.named_prefix(connection, found.id, raw_prefix),
            # without an `as_of` nothing has an age
            started_until_ms=None if min_age is None else (as_of_ms or 0) - span_ms(min_age),
            producer_id=producer_id,
            topic=None if topic is None else printable(topic),
            text=text,
        )
        page = transactions.read_page(connection, found.id, selection, sort, after, limit)
        items = describe_page(connection, found, page.rows)
    body = {
        "items": items,
        "next_cursor": None if page.after is None else write_cursor(page.after, *filters),
        "as_of": text_of_time(as_of_ms),
    }
    return answer(request, body, as_of_ms)


@router.get(
    "/clusters/{cluster}/transaction",
    operation_id="getTransaction",
    response_model=OneTransaction,
    responses=describe(404, 422, 503),
)
def get_transaction(
    request: Request,
    cluster: str,
    id: Id = None,  # noqa: A002 - the contract's name
    id_b64: IdBase64 = None,
) -> Response:
    """Returns one id in full, also an expired one until it is forgotten. Give `id` or `id_b64`."""
    asked = id_of(request, id, id_b64)
    with store_of(request).read() as connection:
        found, row = known_id(connection, cluster, asked)
        as_of_ms = clusters.log_as_of_ms(connection, found.id)
        (body,) = describe_page(connection, found, [row])
    return answer(request, body | {"as_of": text_of_time(as_of_ms)}, as_of_ms)

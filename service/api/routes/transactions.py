"""The transactional ids of a cluster: pages of ids by filter and sort, one id in full, and the ids that expire soon."""

from __future__ import annotations

import struct
from typing import Annotated, Literal

from fastapi import Query as QueryParameter
from fastapi import Request, Response

from service.api.http.answers import KeptRouter, answer, answer_page
from service.api.http.fields import text_of_time
from service.api.http.paging import LIMIT, Cursor, Limit, read_cursor, seal, unseal, write_cursor
from service.api.http.parameters import Duration, Id, IdBase64, OfApplication, bytes_of, id_of, known_id
from service.api.http.state import App
from service.api.schemas.shape import shaped
from service.api.schemas.transactions import OneTransaction, State, Transaction, Transactions
from service.domain.duration_text import span_ms
from service.domain.transaction_log.states import CODES, EXPIRED
from service.store.escaped_text import printable
from service.store.queries import clusters, transactions
from service.store.queries.expiring import ExpiringCursor, read_expiring
from service.store.queries.transaction_pages import Selection
from service.views.transactions.described import read_described

# cursor of a page of expiring ids: the last row's time of last change (ms); the id's bytes follow
_HEAD = struct.Struct(">q")

router = KeptRouter("transactions")


@router.read("/clusters/{cluster}/transactions", "listTransactions", Transactions)
def list_transactions(
    request: Request,
    app: App,
    cluster: str,
    state: Annotated[
        list[State] | None,
        QueryParameter(
            description="Only ids in this state; repeat it for several states. Default: all states but Expired."
        ),
    ] = None,
    prefix: Annotated[
        str,
        QueryParameter(
            description="The id's first bytes, percent-encoded, UTF-8 or not. If no id begins with these bytes, they"
            " are taken as the beginning of the display form."
        ),
    ] = "",
    min_age: Annotated[
        Duration | None,
        QueryParameter(description="Minimum age of the open transaction at `as_of`, like 90s, 15m, 24h, 7d."),
    ] = None,
    producer_id: Annotated[
        int | None, QueryParameter(ge=0, lt=2**63, description="Only the id that has this producer id now.")
    ] = None,
    topic: Annotated[
        str | None, QueryParameter(max_length=249, description="Only ids with an open transaction on this topic.")
    ] = None,
    application: OfApplication = None,
    q: Annotated[
        str,
        QueryParameter(max_length=1000, description="Only ids whose display form contains this text, ignoring case."),
    ] = "",
    sort: Annotated[
        Literal["age", "transactional_id", "last_updated"],
        QueryParameter(
            description="age: the id whose transaction has been open longest comes first; ids without an open"
            " transaction come last, by their bytes. transactional_id: by the bytes of the id. last_updated: the id"
            " that changed last comes first."
        ),
    ] = "age",
    limit: Limit = LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Lists transactional ids, one row each."""
    raw_prefix = (bytes_of(request, "prefix") or b"") if prefix else b""
    text = (bytes_of(request, "q") or b"") if q else b""
    states = frozenset(CODES[name] for name in state) if state else frozenset(CODES.values()) - {EXPIRED}
    filters = (cluster, sort, sorted(states), raw_prefix, min_age, producer_id, topic, text, application)
    after = None if cursor is None else read_cursor(cursor, sort, *filters)
    with app.reading(cluster) as (connection, found):
        as_of_ms = clusters.log_as_of_ms(connection, found.id)
        selection = Selection(
            states=states,
            prefix=transactions.named_prefix(connection, found.id, raw_prefix),
            # without an `as_of` no transaction has an age
            started_until_ms=None if min_age is None else (as_of_ms or 0) - span_ms(min_age),
            producer_id=producer_id,
            topic=None if topic is None else printable(topic),
            text=text,
            application=application,
        )
        page = transactions.read_page(connection, found.id, selection, sort, after, limit)
        items = [Transaction.of(described_id, found) for described_id in read_described(connection, found, page.rows)]
    next_cursor = None if page.after is None else write_cursor(page.after, *filters)
    return answer_page(Transactions, items, next_cursor, as_of_ms)


@router.read("/clusters/{cluster}/transaction", "getTransaction", OneTransaction)
def get_transaction(
    request: Request,
    app: App,
    cluster: str,
    id: Id = None,  # noqa: A002 - the contract's name
    id_b64: IdBase64 = None,
) -> Response:
    """Returns one id in full. An expired id is found until its retention ends. Give `id` or `id_b64`."""
    asked = id_of(request, id, id_b64)
    with app.store.read() as connection:
        found, row = known_id(connection, cluster, asked)
        as_of_ms = clusters.log_as_of_ms(connection, found.id)
        (described_id,) = read_described(connection, found, [row])
    return answer(shaped(OneTransaction, Transaction.of(described_id, found), as_of=text_of_time(as_of_ms)), as_of_ms)


@router.read("/clusters/{cluster}/expiring", "listExpiring", Transactions)
def list_expiring(
    app: App,
    cluster: str,
    within: Annotated[
        Duration,
        QueryParameter(description="Only ids that expire within this time after `as_of`, like 90s, 15m, 24h, 7d."),
    ] = "24h",
    application: OfApplication = None,
    limit: Limit = LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Lists ids by `expires_at`, the soonest first. An id expires if its record in the transaction log does not change
    for `transactional.id.expiration.ms` (the brokers' value; if that is unknown, Kafka's default). Ids past that time
    come first: the coordinator has not removed them yet. An id with an open transaction does not expire. Expired ids
    are not listed.
    """
    filters = (cluster, "expiring", within, application)
    after = None
    if cursor is not None:
        data = unseal(cursor, _HEAD.size, *filters)
        (last_update_ms,) = _HEAD.unpack_from(data)
        after = ExpiringCursor(last_update_ms, data[_HEAD.size :])
    with app.reading(cluster) as (connection, found):
        as_of_ms = clusters.log_as_of_ms(connection, found.id)
        until_ms = (as_of_ms or 0) + span_ms(within) - found.expiration_ms
        page = read_expiring(connection, found.id, until_ms, after, limit, application)
        items = [Transaction.of(described_id, found) for described_id in read_described(connection, found, page.rows)]
    next_cursor = page.after and seal(_HEAD.pack(page.after.last_update_ms) + page.after.transactional_id, *filters)
    return answer_page(Transactions, items, next_cursor, as_of_ms)

"""The transactional ids of a cluster: a page of them by filter and sort, and one in full."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request, Response
from fastapi import Query as QueryParameter
from sqlalchemy import Connection

from service.api.answers import answer
from service.api.clusters import configs_of, known_cluster
from service.api.cursors import decode_bytes, read_cursor, write_cursor
from service.api.fields import text_of_time
from service.api.models import OneTransaction, Transactions
from service.api.parameters import Duration, bytes_of, duration_ms, only_known
from service.api.problems import BAD_PARAMETER, NO_SUCH_ID, ParameterError, ProblemError, describe
from service.api.store import store_of
from service.api.transaction_shape import Surroundings, describe_transaction
from service.domain.limits import EXPIRATION_CONFIG
from service.domain.states import CODES, EXPIRED
from service.domain.transaction_log import SOURCE
from service.store import read, read_transactions
from service.store.display import display_id, printable
from service.store.read import ClusterRow
from service.store.read_transactions import Selection

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
        str, QueryParameter(description="The id's first bytes, percent-encoded: they need not be UTF-8.")
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
    limit: Annotated[int, QueryParameter(ge=1, le=200)] = 50,
    cursor: Annotated[
        str | None,
        QueryParameter(description="`next_cursor` of the page before, with the filters and the sort of that page."),
    ] = None,
) -> Response:
    """One row for each transactional id. Where the sort is by bytes, they are those of the log."""
    raw_prefix = (bytes_of(request, "prefix") or b"") if prefix else b""
    text = display_id(bytes_of(request, "q") or b"") if q else None
    states = frozenset(CODES[name] for name in state) if state else frozenset(CODES.values()) - {EXPIRED}
    filters = (cluster, sort, sorted(states), raw_prefix, min_age, producer_id, topic, text)
    after = None if cursor is None else read_cursor(cursor, sort, *filters)
    with store_of(request).read() as connection:
        found = known_cluster(connection, cluster)
        as_of_ms = _as_of_ms(connection, found)
        selection = Selection(
            states=states,
            prefix=raw_prefix,
            # without an `as_of` nothing has an age
            started_until_ms=None if min_age is None else (as_of_ms or 0) - duration_ms(min_age),
            producer_id=producer_id,
            topic=None if topic is None else printable(topic),
            text=text,
        )
        page = read_transactions.read_page(connection, found.id, selection, sort, after, limit)
        ids = [row.transactional_id for row in page.rows]
        participants = read_transactions.participants(connection, found.id, ids)
        surroundings = _surroundings(connection, found)
    body = {
        "items": [
            describe_transaction(row, participants.get(row.transactional_id, ()), surroundings) for row in page.rows
        ],
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
    id: Annotated[  # noqa: A002 - the contract's name
        str | None,
        QueryParameter(
            description="The id's bytes, percent-encoded (`+` is a space): an id may hold NUL or what is not UTF-8."
        ),
    ] = None,
    id_b64: Annotated[
        str | None,
        QueryParameter(description="Instead of `id`: the bytes as base64url, for ids too long to be percent-encoded."),
    ] = None,
) -> Response:
    """One id in full; an expired one too, until it is forgotten. Give `id` or `id_b64`."""
    transactional_id = _transactional_id(bytes_of(request, "id") if id is not None else None, id_b64)
    with store_of(request).read() as connection:
        found = known_cluster(connection, cluster)
        row = read_transactions.find(connection, found.id, transactional_id)
        if row is None:
            shown = display_id(transactional_id[:200])
            raise ProblemError(404, NO_SUCH_ID, f"cluster {found.name!r} has no transactional id {shown!r}")
        participants = read_transactions.participants(connection, found.id, [transactional_id])
        as_of_ms = _as_of_ms(connection, found)
        body = describe_transaction(row, participants.get(transactional_id, ()), _surroundings(connection, found))
    return answer(request, body | {"as_of": text_of_time(as_of_ms)}, as_of_ms)


def _transactional_id(raw: bytes | None, b64: str | None) -> bytes:
    """ProblemError (422) unless exactly one of them is given and usable."""
    if (raw is None) == (b64 is None):
        raise _unusable("id", "give either id or id_b64")
    if raw is not None:
        return raw
    decoded = decode_bytes(b64 or "")
    if decoded is None:
        raise _unusable("id_b64", "not base64url")
    return decoded


def _unusable(parameter: str, message: str) -> ProblemError:
    errors = [ParameterError(parameter=parameter, message=message)]
    return ProblemError(422, BAD_PARAMETER, f"{parameter}: {message}", errors)


def _as_of_ms(connection: Connection, cluster: ClusterRow) -> int | None:
    status = read.statuses(connection, cluster.id).get(SOURCE)
    return None if status is None else status.as_of_ms


def _surroundings(connection: Connection, cluster: ClusterRow) -> Surroundings:
    coordinators: dict[int, Any] = {row.partition: row for row in read.partitions(connection, cluster.id, SOURCE)}
    return Surroundings(cluster, coordinators, int(configs_of(cluster)[EXPIRATION_CONFIG]["value"]))

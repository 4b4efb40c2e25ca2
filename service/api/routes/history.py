"""The history of a transactional id: its timeline, and its commits and aborts by minute. Also the owners of a producer
id."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path as PathParameter
from fastapi import Request, Response

from service.api.http.answers import KeptRouter, answer_page
from service.api.http.fields import text_of_time
from service.api.http.paging import LIMIT, Cursor, Key, Limit, cut, read_timeline_cursor, write_place
from service.api.http.parameters import Id, IdBase64, Window, id_of, known_id, window_ms
from service.api.http.problems import NO_SUCH_PRODUCER, ProblemError
from service.api.http.state import App
from service.api.schemas.history import (
    FoldedCommits,
    ProducerOwner,
    ProducerOwners,
    Timeline,
    TransactionMinute,
    TransactionRates,
    Transition,
)
from service.domain.transaction_log.id_delta import minute_of
from service.domain.transaction_log.timeline import Folded
from service.store.escaped_text import id_key
from service.store.queries import clusters
from service.store.queries.history import Owner, read_owners, read_timeline
from service.views.transactions.spans import read_all_minutes

router = KeptRouter("transactions")


@router.read("/clusters/{cluster}/transaction/timeline", "getTimeline", Timeline)
def get_timeline(
    request: Request,
    app: App,
    cluster: str,
    id: Id = None,  # noqa: A002 - the contract's name
    id_b64: IdBase64 = None,
    limit: Limit = LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Lists the history of one id, newest first: its notable transitions (aborts, initialisations, expiries, slow
    markers, anything odd), and between them the number of ordinary commits, counted since `counted_since`. The commits
    of a minute are listed at the time of the last one. The cause of an abort is given at its PrepareAbort. History is
    kept for 7 days by default (`[keep] history`). Give `id` or `id_b64`.
    """
    asked = id_of(request, id, id_b64)
    filters = (cluster, "timeline", *asked)
    begin = read_timeline_cursor(cursor, *filters)
    with app.store.read() as connection:
        found, row = known_id(connection, cluster, asked)
        as_of_ms = clusters.log_as_of_ms(connection, found.id)
        page = read_timeline(connection, found.id, row.transactional_id, begin, limit)
    items = [
        FoldedCommits.of(item) if isinstance(item, Folded) else Transition.of(item.transition) for item in page.items
    ]
    next_cursor = None if page.after is None else write_place(page.after, *filters)
    since = text_of_time(found.counted_since_ms)
    return answer_page(Timeline, items, next_cursor, as_of_ms, counted_since=since)


@router.read("/clusters/{cluster}/transaction/rates", "getTransactionRates", TransactionRates)
def get_rates(
    request: Request,
    app: App,
    cluster: str,
    id: Id = None,  # noqa: A002 - the contract's name
    id_b64: IdBase64 = None,
    window: Window = "1h",
    limit: Limit = LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Lists commits, aborts and durations of one id, by the minute of the transaction log's timestamps, oldest first.
    The time for which a transaction was open counts in the minute of its decision; everything else counts in the minute
    in which it completed. Minutes in which no transaction was decided or completed are left out. Give `id` or `id_b64`.
    """
    asked = id_of(request, id, id_b64)
    length_ms = window_ms(window)
    with app.store.read() as connection:
        found, row = known_id(connection, cluster, asked)
        as_of_ms = clusters.log_as_of_ms(connection, found.id)
        from_ms = minute_of((as_of_ms or 0) - length_ms)
        minutes = read_all_minutes(connection, row, from_ms)
    of_id = (cluster, "rates", *asked, window)
    page, next_cursor = cut(minutes, lambda minute: (minute.minute_ms,), limit, cursor, *of_id)
    items = [TransactionMinute.of(minute) for minute in page]
    return answer_page(TransactionRates, items, next_cursor, as_of_ms)


@router.read("/clusters/{cluster}/producers/{producer_id}", "listProducerOwners", ProducerOwners)
def list_owners(
    app: App,
    cluster: str,
    producer_id: Annotated[int, PathParameter(ge=0, lt=2**63)],
    limit: Limit = LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Lists the transactional ids that wrote under a producer id, the newest first, expired ids included. Answers 404
    if no such id is known: either the producer has no transactions, or the owners are no longer kept (`[keep]
    producer_ids`, 90 days by default).
    """
    with app.reading(cluster) as (connection, found):
        as_of_ms = clusters.log_as_of_ms(connection, found.id)
        owners = read_owners(connection, found.id, producer_id)
    if not owners:
        raise ProblemError(
            404, NO_SUCH_PRODUCER, f"cluster {found.name!r} has no transactional id with producer id {producer_id}"
        )
    page, next_cursor = cut(owners, _place, limit, cursor, cluster, "producers", producer_id)
    items = [ProducerOwner.of(owner, found.name) for owner in page]
    return answer_page(ProducerOwners, items, next_cursor, as_of_ms)


def _place(owner: Owner) -> Key:
    """Returns the place of an owner in the order of `read_owners`: the owner seen last comes first; owners seen at the
    same time are ordered by bytes."""
    return -owner.last_seen_ms, id_key(owner.transactional_id).hex()

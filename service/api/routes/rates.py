"""Commits, aborts and durations of one id, minute by minute."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request, Response
from fastapi import Query as QueryParameter

from service.api.http.answers import answer
from service.api.http.fields import text_of_time, time_field
from service.api.http.paging import LIMIT, Cursor, Limit, cut
from service.api.http.parameters import Duration, only_known, unusable
from service.api.http.problems import describe
from service.api.http.store import store_of
from service.api.routes.one_id import Id, IdBase64, id_of, known_id
from service.api.schemas.history import TransactionRates
from service.api.schemas.transaction_body import CAUSES, waiting_abort_ms
from service.domain.duration_text import span_ms
from service.domain.transaction_log.minutes import minute_of
from service.store.queries import clusters
from service.store.queries.history import MinuteRow, read_minutes

LONGEST_MS: Final = 7 * 24 * 3_600_000
"""Longest `window`: history is kept that long by default."""

_NOTHING = MinuteRow(*[0] * len(MinuteRow._fields))

router = APIRouter(tags=["transactions"], dependencies=[Depends(only_known)])


@router.get(
    "/clusters/{cluster}/transaction/rates",
    operation_id="getTransactionRates",
    response_model=TransactionRates,
    responses=describe(400, 404, 422, 503),
)
def get_rates(
    request: Request,
    cluster: str,
    id: Id = None,  # noqa: A002 - the contract's name
    id_b64: IdBase64 = None,
    window: Annotated[
        Duration, QueryParameter(description="The minutes that ended this long before `as_of`, or later; at most 7d.")
    ] = "1h",
    limit: Limit = LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Lists commits, aborts and durations of one id, by the minute of the transaction log's timestamps, oldest first.
    Minutes in which nothing ended are left out. Give `id` or `id_b64`.
    """
    asked = id_of(request, id, id_b64)
    window_ms = span_ms(window)
    if window_ms > LONGEST_MS:
        raise unusable("window", f"at most 7d, {window!r} is longer")
    with store_of(request).read() as connection:
        found, row = known_id(connection, cluster, asked)
        as_of_ms = clusters.log_as_of_ms(connection, found.id)
        from_ms = minute_of((as_of_ms or 0) - window_ms)
        minutes = {one.minute_ms: one for one in read_minutes(connection, found.id, row.transactional_id, from_ms)}
    waiting_ms = waiting_abort_ms(row)
    if waiting_ms is not None and minute_of(waiting_ms) >= from_ms:
        minute_ms = minute_of(waiting_ms)
        minute = minutes.get(minute_ms, _NOTHING._replace(minute_ms=minute_ms))
        minutes[minute_ms] = minute._replace(aborts_unattributed=minute.aborts_unattributed + 1)
    of_id = (cluster, "rates", *asked, window)
    page, next_cursor = cut(sorted(minutes), lambda minute_ms: (minute_ms,), limit, cursor, *of_id)
    body = {
        "items": [_minute(minutes[minute_ms]) for minute_ms in page],
        "next_cursor": next_cursor,
        "as_of": text_of_time(as_of_ms),
    }
    return answer(request, body, as_of_ms)


def _minute(one: MinuteRow) -> dict[str, Any]:
    return {
        **time_field("minute", one.minute_ms),
        "commits": one.commits,
        "aborts": {cause: getattr(one, f"aborts_{cause}") for cause in CAUSES},
        "open_ms": _durations(one.opened, one.open_sum_ms, one.open_max_ms),
        "marker_ms": _durations(one.marked, one.marker_sum_ms, one.marker_max_ms),
    }


def _durations(count: int, sum_ms: int, max_ms: int) -> dict[str, int | None]:
    if count == 0:
        return {"mean": None, "max": None}
    return {"mean": round(sum_ms / count), "max": max_ms}

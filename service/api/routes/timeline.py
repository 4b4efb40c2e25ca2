"""The timeline of one id: its notable transitions, and the ordinary commits between them as counts."""

from __future__ import annotations

import struct
from typing import Any

from fastapi import APIRouter, Depends, Request, Response

from service.api.http.answers import answer
from service.api.http.fields import text_of_time, time_field
from service.api.http.paging import LIMIT, Cursor, Limit, foreign_cursor, seal, unseal
from service.api.http.parameters import only_known
from service.api.http.problems import describe
from service.api.http.store import store_of
from service.api.routes.one_id import Id, IdBase64, id_of, known_id
from service.api.schemas.history import Timeline
from service.domain.transaction_log.facts import NO_ID
from service.domain.transaction_log.states import NAMES
from service.domain.transaction_log.timeline import Folded, Row, TimelineCursor
from service.store.queries import clusters
from service.store.queries.history import read_timeline

# whether there is a row, its generation, offset and number; whether there is a minute, and which
_MARK = struct.Struct(">?qqq?q")

router = APIRouter(tags=["transactions"], dependencies=[Depends(only_known)])


@router.get(
    "/clusters/{cluster}/transaction/timeline",
    operation_id="getTimeline",
    response_model=Timeline,
    responses=describe(400, 404, 422, 503),
)
def get_timeline(
    request: Request,
    cluster: str,
    id: Id = None,  # noqa: A002 - the contract's name
    id_b64: IdBase64 = None,
    limit: Limit = LIMIT,
    cursor: Cursor = None,
) -> Response:
    """Lists the history of one id, newest first, kept for 7 days: its notable transitions (aborts, initialisations,
    expiries, slow markers, anything odd), and between them the number of ordinary commits, counted since
    `counted_since`. The commits of a minute are listed at the time of the last one. The cause of an abort is given at
    its PrepareAbort. Give `id` or `id_b64`.
    """
    asked = id_of(request, id, id_b64)
    filters = (cluster, "timeline", *asked)
    begin = TimelineCursor() if cursor is None else _read_mark(unseal(cursor, _MARK.size, *filters))
    with store_of(request).read() as connection:
        found, row = known_id(connection, cluster, asked)
        as_of_ms = clusters.log_as_of_ms(connection, found.id)
        page = read_timeline(connection, found.id, row.transactional_id, begin, limit)
    body = {
        "items": [_folded(item) if isinstance(item, Folded) else _transition(item) for item in page.items],
        "next_cursor": None if page.after is None else seal(_write_mark(page.after), *filters),
        "as_of": text_of_time(as_of_ms),
        "counted_since": text_of_time(found.counted_since_ms),
    }
    return answer(request, body, as_of_ms)


def _transition(row: Row) -> dict[str, Any]:
    """Returns the Transition of a row. A record without a producer (an expiry, or undecodable) and a predecessor that
    was never seen give null.
    """
    has_producer = row.producer_id != NO_ID
    return {
        "type": "transition",
        **time_field("at", row.at_ms),
        "offset": row.offset,
        "from_state": NAMES.get(row.from_state),
        "to_state": NAMES[row.to_state],
        "producer_id": row.producer_id if has_producer else None,
        "producer_epoch": row.producer_epoch if has_producer else None,
        "duration_ms": row.duration_ms,
        "marker_ms": row.marker_ms,
        "cause": row.cause,
        "confidence": row.confidence,
        "note": row.note,
    }


def _folded(item: Folded) -> dict[str, Any]:
    return {
        "type": "folded",
        "count": item.commits,
        **time_field("from_at", item.from_ms),
        **time_field("to_at", item.to_ms),
    }


def _write_mark(mark: TimelineCursor) -> bytes:
    return _MARK.pack(mark.row is not None, *(mark.row or (0, 0, 0)), mark.minute_ms is not None, mark.minute_ms or 0)


def _read_mark(data: bytes) -> TimelineCursor:
    if len(data) != _MARK.size:
        raise foreign_cursor()
    has_row, generation, offset, number, has_minute, minute_ms = _MARK.unpack(data)
    return TimelineCursor((generation, offset, number) if has_row else None, minute_ms if has_minute else None)

"""GET /events: findings as they open, confirm and resolve, as server-sent events.

The id of an event is the store's number of it; a client that comes back with Last-Event-ID goes on behind it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Request
from fastapi import Query as QueryParameter
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from service.api.http.fields import spell_out_wide_numbers
from service.api.http.parameters import only_known
from service.api.http.problems import describe
from service.api.http.store import Store, store_of
from service.api.routes.clusters import known_cluster
from service.api.schemas.finding_body import describe_finding
from service.store.errors import StoreError
from service.store.queries import findings
from service.store.queries.findings import Told

LOOK_EVERY_S: Final = 0.5
HEARTBEAT_EVERY_S: Final = 15.0
RETRY_MS: Final = 2_000
AT_ONCE: Final = 100

router = APIRouter(tags=["findings"], dependencies=[Depends(only_known)])


@router.get(
    "/events",
    operation_id="streamEvents",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}}, **describe(404, 422, 503)},
)
def stream_events(
    request: Request,
    cluster: Annotated[str | None, QueryParameter(description="Only this cluster's.")] = None,
    last_event_id: Annotated[str | None, Header(description="Go on behind this event.")] = None,
) -> StreamingResponse:
    """Events `opened`, `confirmed`, `reopened`, `updated` (another severity) and `resolved`, with the Finding as data.

    `reset`: what came behind Last-Event-ID is no longer kept; read the findings anew. The stream goes on.
    """
    store = store_of(request)
    with store.read() as connection:
        if cluster is not None:
            known_cluster(connection, cluster)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream(store, cluster, last_event_id), media_type="text/event-stream", headers=headers)


async def stream(store: Store, cluster: str | None, last_event_id: str | None) -> AsyncIterator[str]:
    """Until the client goes, or the store does not answer: then it comes back and resumes."""
    try:
        sequence, is_reset = await run_in_threadpool(_begin, store, last_event_id)
        yield f"retry: {RETRY_MS}\n\n"
        if is_reset:
            yield f"id: {sequence}\nevent: reset\ndata: {{}}\n\n"
        quiet_s = 0.0
        while True:
            told = await run_in_threadpool(_read, store, sequence, cluster)
            for one in told:
                sequence = one.sequence
                yield _message(one)
            if len(told) == AT_ONCE:
                continue
            quiet_s = 0.0 if told else quiet_s + LOOK_EVERY_S
            if quiet_s >= HEARTBEAT_EVERY_S:
                quiet_s = 0.0
                yield ": heartbeat\n\n"
            await asyncio.sleep(LOOK_EVERY_S)
    except StoreError:
        return


def _begin(store: Store, last_event_id: str | None) -> tuple[int, bool]:
    """(where to go on, whether something was missed). Without an id: from now on."""
    with store.read() as connection:
        oldest, newest = findings.known_sequences(connection)
    if last_event_id is None:
        return newest, False
    last = int(last_event_id) if last_event_id.isascii() and last_event_id.isdigit() else -1
    if not oldest - 1 <= last <= newest:
        return newest, True
    return last, False


def _read(store: Store, sequence: int, cluster: str | None) -> list[Told]:
    with store.read() as connection:
        return findings.told_after(connection, sequence, cluster, AT_ONCE)


def _message(told: Told) -> str:
    body: Any = spell_out_wide_numbers(describe_finding(told.finding, told.cluster))
    # ASCII: many a client ends lines at U+2028 and U+0085, too
    data = json.dumps(body, allow_nan=False, separators=(",", ":"))
    return f"id: {told.sequence}\nevent: {told.event}\ndata: {data}\n\n"

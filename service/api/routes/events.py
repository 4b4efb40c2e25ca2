"""GET /events: server-sent events about findings that open, are confirmed or resolve.

The id of an event is its number in the store. A client that comes back with Last-Event-ID resumes after that event.
FastAPI writes the events, and a comment every 15 s while there are none.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Final, NamedTuple

from fastapi import APIRouter, Depends, Header, Request
from fastapi import Query as QueryParameter
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from service.api.http.parameters import only_known
from service.api.http.problems import describe
from service.api.http.store import Store, store_of
from service.api.routes.clusters import known_cluster
from service.api.schemas.findings import Finding
from service.api.schemas.shape import to_json
from service.store.engine import StoreError
from service.store.queries import findings
from service.store.queries.findings import FindingEvent

LOOK_EVERY_S: Final = 0.5
RETRY_MS: Final = 2_000
AT_ONCE: Final = 100

router = APIRouter(tags=["findings"], dependencies=[Depends(only_known)])


class Listening(NamedTuple):
    """A client's place in the stream of events.

    `cluster` None: all clusters. `sequence`: the last event that the client has received. `is_reset`: the store no
    longer keeps every event after the client's last one, or does not know the last one; the stream goes on after the
    newest event.
    """

    store: Store
    cluster: str | None
    sequence: int
    is_reset: bool


def listening(
    request: Request,
    cluster: Annotated[str | None, QueryParameter(description="Only events of this cluster.")] = None,
    last_event_id: Annotated[str | None, Header(description="Resume after this event.")] = None,
) -> Listening:
    """Returns the place at which the requested stream begins. ProblemError (404) for a cluster that the store does not
    know; StoreError if the store does not answer.
    """
    return begin(store_of(request), cluster, last_event_id)


def begin(store: Store, cluster: str | None, last_event_id: str | None) -> Listening:
    """Returns the place after the event `last_event_id`; without an id, the place after the newest event."""
    with store.read() as connection:
        if cluster is not None:
            known_cluster(connection, cluster)
        oldest, newest = findings.known_sequences(connection)
    if last_event_id is None:
        return Listening(store, cluster, newest, is_reset=False)
    last = int(last_event_id) if last_event_id.isascii() and last_event_id.isdigit() else -1
    is_kept = oldest - 1 <= last <= newest
    return Listening(store, cluster, last if is_kept else newest, is_reset=not is_kept)


@router.get(
    "/events",
    operation_id="streamEvents",
    response_class=EventSourceResponse,
    responses={200: {"content": {"text/event-stream": {}}}, **describe(404, 422, 503)},
)
async def stream_events(client: Annotated[Listening, Depends(listening)]) -> AsyncIterator[ServerSentEvent]:
    """Streams events `opened`, `confirmed`, `reopened`, `updated` (another severity) and `resolved`, with the Finding
    as data.

    `reset`: the events after Last-Event-ID are no longer kept; read the findings again. The stream then goes on. It
    ends when the store does not answer; the client then reconnects and resumes.
    """
    yield ServerSentEvent(retry=RETRY_MS)
    sequence = client.sequence
    if client.is_reset:
        yield ServerSentEvent(id=str(sequence), event="reset", raw_data="{}")
    while True:
        try:
            told = await run_in_threadpool(_read, client.store, sequence, client.cluster)
        except StoreError:
            return
        for one in told:
            sequence = one.sequence
            yield ServerSentEvent(id=str(sequence), event=one.event, raw_data=_data(one))
        if len(told) < AT_ONCE:
            await asyncio.sleep(LOOK_EVERY_S)


def _read(store: Store, sequence: int, cluster: str | None) -> list[FindingEvent]:
    with store.read() as connection:
        return findings.events_after(connection, sequence, cluster, AT_ONCE)


def _data(told: FindingEvent) -> str:
    """Returns the Finding as JSON in ASCII: many clients end lines at U+2028 and U+0085, too."""
    body = json.loads(to_json(Finding.of(told.finding, told.cluster)))
    return json.dumps(body, separators=(",", ":"))

"""GET /events: server-sent events about findings that open, are confirmed, change or resolve.

The id of an event is its number in the store. A client that comes back with Last-Event-ID resumes after that event.
FastAPI writes the events, and a comment every 15 s while there are none.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Annotated, Final, NamedTuple

from fastapi import APIRouter, Depends, Header, Request
from fastapi import Query as QueryParameter
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from service.api.http.access import may_still_see, require_cluster
from service.api.http.parameters import only_known
from service.api.http.problems import TOO_MANY_STREAMS, ProblemError, describe
from service.api.http.state import App, Store, known_cluster
from service.api.schemas.findings import Finding
from service.api.schemas.shape import to_json
from service.notifications.feed import MOST_STREAMS, AllPlacesTaken, EventFeed, Start, start_after
from service.store.finding_events import FindingEvent

RETRY_MS: Final = 2_000

router = APIRouter(tags=["findings"], dependencies=[Depends(only_known)])


class SentEvent(NamedTuple):
    """An event of a finding. `data`: the finding as JSON in ASCII, because many clients take U+2028 and U+0085 for the
    end of a line."""

    event: str
    cluster: str
    data: str


def sent(event: FindingEvent) -> SentEvent:
    body = json.loads(to_json(Finding.of(event.finding, event.cluster)))
    return SentEvent(event.event, event.cluster, json.dumps(body, separators=(",", ":")))


class Listening(NamedTuple):
    """A client's place in the stream of events.

    `cluster` None: all clusters that the client may see. `start`: the event after which the stream begins.
    `may_see`: returns whether the client may see a cluster; returns None if the client's credentials are no longer
    valid or cannot be checked.
    """

    feed: EventFeed[SentEvent]
    cluster: str | None
    start: Start
    may_see: Callable[[str], Awaitable[bool | None]]


async def listening(
    request: Request,
    app: App,
    cluster: Annotated[str | None, QueryParameter(description="Only events of this cluster.")] = None,
    last_event_id: Annotated[str | None, Header(description="Resume after this event.")] = None,
) -> AsyncIterator[Listening]:
    """Yields the place at which the requested stream begins. Counts the stream as open until it ends. Raises
    ProblemError: 403 for a cluster that the sender may not see, 404 for a cluster that the store does not know, 503 if
    too many streams are open. Raises StoreError if the store does not answer."""
    if cluster is not None:
        require_cluster(request, cluster)
    try:
        with app.event_feed.place():
            start = await run_in_threadpool(begin, app.store, cluster, last_event_id)
            yield Listening(app.event_feed, cluster, start, partial(may_still_see, request, app.access))
    except AllPlacesTaken:
        detail = f"{MOST_STREAMS:,} event streams are open already, and that is the maximum"
        raise ProblemError(503, TOO_MANY_STREAMS, detail, retry=True) from None


def begin(store: Store, cluster: str | None, last_event_id: str | None) -> Start:
    """Returns the place in the stream after the event `last_event_id`; without a `last_event_id`, the place after the
    newest event. Returns a reset if `last_event_id` is no number, if the store never had this event, or if the store no
    longer has all events after it. Raises ProblemError (404) if the store does not know the cluster, or StoreError if
    the store does not answer."""
    last = None
    if last_event_id is not None:
        last = int(last_event_id) if last_event_id.isascii() and last_event_id.isdigit() else -1
    with store.read() as connection:
        if cluster is not None:
            known_cluster(connection, cluster)
        return start_after(connection, last)


@router.get(
    "/events",
    operation_id="streamEvents",
    response_class=EventSourceResponse,
    responses={200: {"content": {"text/event-stream": {}}}, **describe(404, 422, 503)},
)
async def stream_events(client: Annotated[Listening, Depends(listening)]) -> AsyncIterator[ServerSentEvent]:
    """Streams events `opened`, `confirmed`, `reopened`, `updated` (another severity) and `resolved`, with the Finding
    as data.

    The event `reset` means that Last-Event-ID is no event of this store, or that later events are no longer kept. Then
    read the findings again; the stream goes on after a `reset`. The stream ends if the credentials are no longer valid,
    or if the store does not answer. To resume, reconnect with Last-Event-ID.
    """
    yield ServerSentEvent(retry=RETRY_MS)
    if client.start.is_reset:
        yield ServerSentEvent(id=str(client.start.sequence), event="reset", raw_data="{}")
    async for sequence, event in client.feed.follow(client.start.sequence):
        if client.cluster not in (None, event.cluster):
            continue
        may_see = await client.may_see(event.cluster)
        if may_see is None:  # the key was revoked, the token has expired, or the credentials cannot be checked now
            return
        if may_see:
            yield ServerSentEvent(id=str(sequence), event=event.event, raw_data=event.data)

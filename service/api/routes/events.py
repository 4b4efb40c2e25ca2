"""GET /events: server-sent events about findings that open, are confirmed or resolve.

The id of an event is its number in the store. A client that comes back with Last-Event-ID resumes after that event.
FastAPI writes the events, and a comment every 15 s while there are none.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Annotated, Final, NamedTuple

from fastapi import APIRouter, Depends, Header, Request
from fastapi import Query as QueryParameter
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from service.api.http.access import may_still_see, require_cluster
from service.api.http.parameters import only_known
from service.api.http.problems import describe
from service.api.http.state import App
from service.api.http.store import Store, known_cluster
from service.api.routes.event_feed import EventFeed
from service.store.queries import findings

RETRY_MS: Final = 2_000

router = APIRouter(tags=["findings"], dependencies=[Depends(only_known)])


async def _everything(_: str) -> bool:
    return True


class Listening(NamedTuple):
    """A client's place in the stream of events.

    `cluster` None: all clusters that the client may see. `sequence`: the last event that the client has received.
    `is_reset`: the store no longer keeps every event after the client's last one, or does not know the last one; the
    stream goes on after the newest event. `may_see`: returns whether the client may see a cluster; None if its
    credentials are not valid any more.
    """

    feed: EventFeed
    cluster: str | None
    sequence: int
    is_reset: bool
    may_see: Callable[[str], Awaitable[bool | None]] = _everything


async def listening(
    request: Request,
    app: App,
    cluster: Annotated[str | None, QueryParameter(description="Only events of this cluster.")] = None,
    last_event_id: Annotated[str | None, Header(description="Resume after this event.")] = None,
) -> AsyncIterator[Listening]:
    """Yields the place at which the requested stream begins, and holds it until the stream ends. ProblemError: 404 for
    a cluster that the store does not know, 503 if too many streams are open; StoreError if the store does not answer.
    """
    if cluster is not None:
        require_cluster(request, cluster)
    with app.event_feed.place():
        client = await run_in_threadpool(begin, app.event_feed, app.store, cluster, last_event_id)
        yield client._replace(may_see=partial(may_still_see, request, app.access))


def begin(feed: EventFeed, store: Store, cluster: str | None, last_event_id: str | None) -> Listening:
    """Returns the place after the event `last_event_id`; without an id, the place after the newest event."""
    with store.read() as connection:
        if cluster is not None:
            known_cluster(connection, cluster)
        oldest, newest = findings.known_sequences(connection)
    if last_event_id is None:
        return Listening(feed, cluster, newest, is_reset=False)
    last = int(last_event_id) if last_event_id.isascii() and last_event_id.isdigit() else -1
    is_kept = oldest - 1 <= last <= newest
    return Listening(feed, cluster, last if is_kept else newest, is_reset=not is_kept)


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
    if client.is_reset:
        yield ServerSentEvent(id=str(client.sequence), event="reset", raw_data="{}")
    async for one in client.feed.follow(client.sequence):
        if client.cluster not in (None, one.cluster):
            continue
        may_see = await client.may_see(one.cluster)
        if may_see is None:  # the key was revoked, or the token has expired
            return
        if may_see:
            yield ServerSentEvent(id=str(one.sequence), event=one.event, raw_data=one.data)

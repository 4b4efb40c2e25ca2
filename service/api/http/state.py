"""The state that the handlers of one application share. Handlers take it as a parameter: `app: App`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

if TYPE_CHECKING:  # most of these use the state themselves
    from service.api.http.access import Access
    from service.api.http.kafka import Brokers
    from service.api.http.kept import Answers
    from service.api.http.store import Store
    from service.api.routes.events import SentEvent
    from service.metrics.page import Metrics
    from service.notifications.feed import EventFeed


@dataclass(frozen=True, slots=True)
class AppState:
    """`watched_store`: has connections of its own, for health and metrics. `kafka` asks; `remediation_kafka` writes
    markers. `configured_clusters`: names of the clusters that have brokers in the settings. `now_ms`: the clock."""

    store: Store
    watched_store: Store
    store_url: str
    kafka: Brokers
    remediation_kafka: Brokers
    configured_clusters: tuple[str, ...]
    access: Access
    now_ms: Callable[[], int]
    event_feed: EventFeed[SentEvent]
    answers: Answers
    metrics: Metrics


def state_of(request: Request) -> AppState:
    """Returns the state of the application that answers the request."""
    state = request.app.state.txnscope
    assert isinstance(state, AppState)
    return state


async def _state(request: Request) -> AppState:
    """As `state_of`. Asynchronous because FastAPI would run a plain function in another thread."""
    return state_of(request)


App = Annotated[AppState, Depends(_state)]

"""The state that the handlers of one application share, and the service's access to the store. Handlers take the state
as a parameter: `app: App`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import TimeoutError as PoolTimeout

from service.api.http.problems import NO_SUCH_APPLICATION, NO_SUCH_CLUSTER, NO_SUCH_FINDING, ProblemError
from service.domain.findings.finding import Finding
from service.store.errors import StoreUnavailable
from service.store.escaped_text import printable
from service.store.queries import clusters, findings
from service.store.queries.applications import ApplicationRow, find_application
from service.store.queries.clusters import ClusterRow
from service.store.schema_check import SchemaCheck

if TYPE_CHECKING:
    from service.api.http.access import Access
    from service.api.http.answers import Answers
    from service.api.http.kafka import Brokers
    from service.api.routes.events import SentEvent
    from service.metrics.page import Metrics
    from service.notifications.feed import EventFeed


@dataclass(frozen=True, slots=True)
class AppState:
    """The objects that all handlers of one application share. `watched_store`: the store over separate connections, for
    the readiness check. `kafka`: the connections for reads; `remediation_kafka`: the connections for markers.
    `configured_clusters`: names of the clusters with brokers of their own (`[[clusters]]`). `now_ms`: the clock."""

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

    @contextmanager
    def reading(self, cluster: str) -> Iterator[tuple[Connection, ClusterRow]]:
        """Yields a connection to the store, and the cluster of that name. Raises ProblemError (404) if the store does
        not know the cluster, and the errors of `Store.read`."""
        with self.store.read() as connection:
            yield connection, known_cluster(connection, cluster)


def state_of(request: Request) -> AppState:
    """Returns the state of the application that answers the request."""
    state = request.app.state.txnscope
    assert isinstance(state, AppState)
    return state


async def _state(request: Request) -> AppState:
    """Calls `state_of`. Asynchronous because FastAPI would run a plain function in another thread."""
    return state_of(request)


App = Annotated[AppState, Depends(_state)]


class Store:
    """Reads the store through one engine. The store need not exist when this object is built."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._schema = SchemaCheck(engine)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yields a connection whose transaction sees one state of the store.

        Raises StoreError if the store does not answer, or if this version cannot read its schema.
        """
        try:
            with self._engine.connect() as connection:
                self._schema.check(connection)
                yield connection
        except PoolTimeout as error:
            raise StoreUnavailable("too many requests read the store at once; try again later") from error

    def check(self) -> None:
        """Raises the errors of `read` if the store cannot be read."""
        with self.read():
            pass

    @property
    def newer(self) -> str | None:
        """Returns a sentence if the last read found that a newer version of txnscope has added to the store; else
        None."""
        return self._schema.newer


def known_cluster(connection: Connection, name: str) -> ClusterRow:
    """Returns the cluster of that name. Raises ProblemError (404) if the store has none."""
    found = clusters.find_cluster(connection, name)
    if found is None:
        names = ", ".join(repr(cluster.name) for cluster in clusters.all_clusters(connection))
        known = f"the store knows: {names}" if names else "no cluster has been read yet"
        raise ProblemError(404, NO_SUCH_CLUSTER, f"there is no cluster {name!r}", for_all=f"; {known}")
    return found


def known_application(connection: Connection, cluster: ClusterRow, name: str) -> ApplicationRow:
    """Returns the application of that name. Raises ProblemError (404) if the cluster has none."""
    found = find_application(connection, cluster.id, name)
    if found is None:
        detail = f"cluster {cluster.name!r} has no application {printable(name)[:249]!r}"
        raise ProblemError(404, NO_SUCH_APPLICATION, detail)
    return found


def known_finding(connection: Connection, cluster: ClusterRow, finding_id: str) -> Finding:
    """Returns the finding of that id. Raises ProblemError (404) if the cluster has none."""
    found = findings.find(connection, cluster.id, finding_id)
    if found is None:
        raise ProblemError(404, NO_SUCH_FINDING, f"cluster {cluster.name!r} has no finding {finding_id[:64]!r}")
    return found

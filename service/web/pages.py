"""What every page's handler begins with: one state of the store, the cluster that is asked for, and the frame."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import Request
from sqlalchemy import Connection

from service.api.http.store import store_of
from service.api.routes.clusters import known_cluster
from service.web.shared.frame import Frame, read_frame


@contextmanager
def framed(request: Request, cluster: str) -> Iterator[tuple[Connection, Frame]]:
    """ProblemError (404) for a cluster that the store does not know; StoreError if it does not answer."""
    with store_of(request).read() as connection:
        found = known_cluster(connection, cluster)
        yield connection, read_frame(connection, found, request.app.state.now_ms())

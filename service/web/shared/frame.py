"""Reads the data of a cluster that every page shows (`Frame`), with the rights of the viewer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import Request
from sqlalchemy import Connection

from service.access.principal import Role
from service.api.http.principals import principal_of
from service.api.http.state import state_of
from service.views.cluster.frame import Frame, Rights, read_frame


@contextmanager
def framed(request: Request, cluster: str) -> Iterator[tuple[Connection, Frame]]:
    """Yields a connection and the frame of the cluster. Raises ProblemError (404) if the store does not know the
    cluster, StoreError if the store cannot be read."""
    app = state_of(request)
    with app.reading(cluster) as (connection, found):
        frame = read_frame(connection, found, app.now_ms())
        seen = tuple(filter(principal_of(request).sees, frame.clusters))
        operates = principal_of(request).may(Role.OPERATOR, found.name)
        rights = Rights(audit=operates or not app.access.authenticator.is_on, write=operates)
        yield connection, frame._replace(clusters=seen, rights=rights, newer=app.store.newer)

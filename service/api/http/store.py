"""The service's access to the store: reads snapshots, and refuses a schema that is not the one this version reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import TimeoutError as PoolTimeout

from service.api.http.problems import NO_SUCH_CLUSTER, ProblemError
from service.store.errors import StoreUnavailable
from service.store.queries import clusters
from service.store.queries.clusters import ClusterRow
from service.store.schema_check import SchemaCheck


class Store:
    """Reads through one engine for the whole process. The store behind the engine need not exist yet."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._schema = SchemaCheck(engine)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Yields a connection whose transaction sees one state of the store.

        StoreError: the store does not answer, or its schema is not at head.
        """
        try:
            with self._engine.connect() as connection:
                self._schema.check(connection)
                yield connection
        except PoolTimeout as error:
            raise StoreUnavailable("store: too many requests are reading it at once") from error

    def check(self) -> None:
        """Raises the errors of `read`."""
        with self.read():
            pass


def known_cluster(connection: Connection, name: str) -> ClusterRow:
    """Returns the cluster of that name. ProblemError (404) if the store has none."""
    found = clusters.find_cluster(connection, name)
    if found is None:
        names = ", ".join(repr(cluster.name) for cluster in clusters.all_clusters(connection))
        raise ProblemError(
            404, NO_SUCH_CLUSTER, f"there is no cluster {name!r}", for_all=f"; the store knows: {names or 'none'}"
        )
    return found

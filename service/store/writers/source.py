"""The base of every source's writer: transactions under the lease, and the status of the source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

from sqlalchemy import Connection, Engine

from service.domain.reasons.coding import encode
from service.domain.reasons.reason import Reason
from service.processes import progress
from service.store.lease import Lease, check
from service.store.schema import source_status
from service.store.upsert import Upsert
from service.store.writers.counters import count_batch

NEVER_MS: Final = 0

_WELL = Upsert(source_status, replace=("as_of_ms", "error", "error_code"))
_IN_TROUBLE = Upsert(source_status, replace=("error", "error_code"))


class SourceWriter:
    """The only writer of what `source` reports about a cluster, for as long as it has the lease."""

    source: ClassVar[str]

    def __init__(self, engine: Engine, lease: Lease) -> None:
        self._engine, self._lease, self._cluster_id = engine, lease, lease.cluster_id

    def report_trouble(self, trouble: Reason) -> None:
        """Stores why nothing can be read, and leaves `as_of_ms` as it is. Raises as `apply`."""
        with self._transaction() as connection:
            self._save_status(connection, NEVER_MS, trouble)

    @contextmanager
    def _transaction(self, before_ms: int | None = None) -> Iterator[Connection]:
        """Begins a transaction under the lease. LeaseLost: stop. StoreUnavailable: try again. `before_ms`: how long the
        previous batch took, to be counted."""
        with self._engine.begin() as connection:
            check(connection, self._lease)
            progress.step()
            count_batch(connection, self._cluster_id, self.source, before_ms)
            yield connection

    def _save_status(self, connection: Connection, as_of_ms: int, trouble: Reason | None) -> None:
        """Writes that the source was read well as of then; with `trouble`, only writes the trouble."""
        if trouble is None:
            _WELL.write(connection, [(self._cluster_id, self.source, as_of_ms, None, None)])
        else:
            row = (self._cluster_id, self.source, NEVER_MS, encode(trouble), trouble.code)
            _IN_TROUBLE.write(connection, [row])

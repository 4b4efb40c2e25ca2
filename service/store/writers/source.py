"""What the writers of all sources share: transactions under the lease, and how the source is doing."""

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
    """The one writer of what `source` tells about a cluster, for as long as it has the lease."""

    source: ClassVar[str]

    def __init__(self, engine: Engine, lease: Lease) -> None:
        self._engine, self._lease, self._cluster_id = engine, lease, lease.cluster_id

    def report_trouble(self, trouble: Reason) -> None:
        """Say why nothing can be read; `as_of_ms` stands still. Raises as `apply`."""
        with self._transaction() as connection:
            self._save_status(connection, NEVER_MS, trouble)

    @contextmanager
    def _transaction(self, before_ms: int | None = None) -> Iterator[Connection]:
        """LeaseLost: stop. StoreUnavailable: try again. `before_ms`: how long the batch before took, to count."""
        with self._engine.begin() as connection:
            check(connection, self._lease)
            progress.step()
            count_batch(connection, self._cluster_id, self.source, before_ms)
            yield connection

    def _save_status(self, connection: Connection, as_of_ms: int, trouble: Reason | None) -> None:
        """Read well as of then, or in trouble."""
        if trouble is None:
            _WELL.write(connection, [(self._cluster_id, self.source, as_of_ms, None, None)])
        else:
            row = (self._cluster_id, self.source, NEVER_MS, encode(trouble), trouble.code)
            _IN_TROUBLE.write(connection, [row])

"""Deletes old data from the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Engine

from service.domain.retention_policy import Keep
from service.store.lease import Lease
from service.store.retention import Retention
from spark_jobs.runtime.liveness import Liveness
from spark_jobs.runtime.periodic import repeated

EVERY_S: Final = 60.0
SOON_S: Final = 1.0
"""Pause between two pieces of a deletion too large for one: readers and the log's writer come first."""


@contextmanager
def deleting_old_data(engine: Engine, lease: Lease, keep: Keep, liveness: Liveness) -> Iterator[None]:
    """Deletes old data piece by piece, in the background, until the block ends or the lease is lost."""
    retention = Retention(engine, lease, keep=keep)

    def work(now_ms: int) -> float:
        return SOON_S if retention.delete_old(now_ms).more else EVERY_S

    with repeated("the deletion of old data", work, liveness):
        yield

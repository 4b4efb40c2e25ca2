"""Where a micro-batch ends: one call of the store's writer, repeated until the store takes it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from service.domain.facts import LogBatch
from service.store.errors import StoreUnavailable
from spark_jobs.arrivals import batches_from_rows
from spark_jobs.source.planner import wall_clock_ms

log = logging.getLogger(__name__)

Apply = Callable[[LogBatch, int], Any]


class StoreSink:
    """Called by Spark with each micro-batch. `stopping` ends the waiting for a store that does not answer."""

    def __init__(self, apply: Apply, stopping: threading.Event) -> None:
        self._apply, self._stopping = apply, stopping
        self.idle = threading.Event()
        self.failure: BaseException | None = None

    def __call__(self, frame: DataFrame, _batch_id: int) -> None:
        """Materialised once: a frame evaluated twice would read a compacting log twice."""
        self.idle.clear()
        try:
            for batch in batches_from_rows(frame.toArrow()):
                self._store(batch)
        except BaseException as e:
            self.failure = e
            raise
        finally:
            self.idle.set()

    def _store(self, batch: LogBatch) -> None:
        pause_s = 0.2
        while True:
            try:
                self._apply(batch, wall_clock_ms())
                return
            except StoreUnavailable as e:
                log.warning("the store does not take the batch, trying again in %.1f s: %s", pause_s, e)
                if self._stopping.wait(pause_s):
                    raise
                pause_s = min(pause_s * 2, 5.0)

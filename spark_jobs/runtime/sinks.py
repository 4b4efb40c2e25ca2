"""Stores each batch with one call of the store's writer, which is repeated until the store takes the batch."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame

from service.clock import wall_clock_ms
from service.processes.waiting import Backoff, heard_by
from service.store.errors import StoreUnavailable
from spark_jobs.runtime.direct_batches import DirectBatches

log = logging.getLogger(__name__)

END_S: Final = 10.0
LOOK_EVERY_S: Final = 0.1
"""Pause (s) between two checks for a direct batch."""

_Batch = TypeVar("_Batch")


class StoreSink(Generic[_Batch]):
    """The sink of a query. Spark calls it with each micro-batch; a thread stores the batch while Spark reads the next.

    So Spark may commit a batch that is not stored yet. This does no harm: nothing depends on Spark's commits
    (docs/adr/0005). Between micro-batches the planner hands over direct batches (`take_from`). Batches are stored one
    at a time, in the order in which they were planned. `failure`: the exception with which storing a batch failed; the
    next call of the sink raises this exception.
    """

    def __init__(
        self,
        batches_from_rows: Callable[[pa.Table], Iterable[_Batch]],
        apply: Callable[[_Batch, int, int | None], Any],
        step: Callable[[], None],
    ) -> None:
        """`apply` gets a batch, the time (ms), and the duration (ms) of the previous micro-batch. Only the first batch
        after a micro-batch comes with this duration; for all others, it is None. `step` is called to report progress:
        when a batch has arrived, when it is stored, and while the store does not take it."""
        self._batches, self._apply, self.step = batches_from_rows, apply, step
        self._ending = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._thread = ThreadPoolExecutor(1, "store")
        self._storing: Future[None] | None = None
        self._direct: DirectBatches | None = None
        self._taking: threading.Thread | None = None
        self._order = threading.Lock()
        self._took_ms: int | None = None
        self.failure: BaseException | None = None

    def __call__(self, frame: DataFrame, _batch_id: int) -> None:
        """Evaluates the frame once and has its rows stored. A second evaluation would read the log again, perhaps after
        a compaction."""
        self._idle.clear()
        began_s = time.monotonic()
        try:
            table = frame.toArrow()
            self.step()
            with self._order:
                self._wait_until_stored()
                if self._take_direct():  # the direct batch was planned before this micro-batch
                    self._wait_until_stored()
                self._storing = self._thread.submit(self._store, table, began_s)
        finally:
            self._idle.set()

    def take_from(self, direct: DirectBatches) -> None:
        """Starts a thread that stores the batches that the planner puts into `direct`, until `close` is called or
        storing a batch fails."""
        self._direct = direct
        self._taking = threading.Thread(target=self._take_directs, name="direct batches", daemon=True)
        self._taking.start()

    def _take_directs(self) -> None:
        while not self._ending.wait(LOOK_EVERY_S) and self.failure is None:
            with self._order:
                if not self._ending.is_set() and (self._storing is None or self._storing.done()):
                    self._take_direct()

    def _take_direct(self) -> bool:
        """Begins to store the batch that the planner handed over directly. Returns False if there is none."""
        table = None if self._direct is None else self._direct.take()
        if table is not None:
            self.step()
            self._storing = self._thread.submit(self._store, table, None)
        return table is not None

    def _wait_until_stored(self) -> None:
        """Waits until the newest batch is stored. If storing it failed, raises the failure."""
        if self._storing is not None:
            self._storing.result()

    def wait_until_idle(self) -> None:
        """Waits at most END_S for the end of a running call of this sink."""
        self._idle.wait(END_S)

    def close(self) -> bool:
        """Stops taking direct batches, then waits for the batch that is being stored. Each of the two waits takes at
        most END_S. Returns False if the batch is still being stored after the second."""
        self._ending.set()
        if self._taking is not None:
            self._taking.join(END_S)
        if self._storing is not None:
            wait([self._storing], END_S)
        self._thread.shutdown(wait=False, cancel_futures=True)
        return self._storing is None or self._storing.done()

    def _store(self, table: pa.Table, began_s: float | None) -> None:
        try:
            for batch in self._batches(table):
                with heard_by(self.step):
                    self._store_one(batch)
                self.step()
                self._took_ms = None
            if began_s is not None:
                self._took_ms = int((time.monotonic() - began_s) * 1000)
        except BaseException as e:
            self.failure = e
            raise

    def _store_one(self, batch: _Batch) -> None:
        backoff = Backoff(0.2, 5.0)
        while True:
            try:
                self._apply(batch, wall_clock_ms(), self._took_ms)
                return
            except StoreUnavailable as e:
                pause_s = backoff.next_s()
                log.warning("the store does not take the batch; the next attempt follows in %.1f s: %s", pause_s, e)
                self.step()
                if self._ending.wait(pause_s):
                    raise

"""A Spark stream reader that plans micro-batches by asking Kafka: the base of sources that read logs to their ends.

Spark 4.3 uses it in two places (python_streaming_source_runner.py). One reader object in one driver-side process plans
as long as the query runs; `read` runs in pooled workers, on a pickled copy.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from service.processes.progress import heard_by, touch
from spark_jobs.source.encoded_failure import encoding_failures


class Planned(Protocol):
    @property
    def has_data(self) -> bool: ...


P = TypeVar("P", bound=Planned)


class Planner(Protocol[P]):
    def plan(self) -> P: ...

    def advance(self, plan: P) -> None: ...

    def close(self) -> None: ...


class PlanningReader(DataSourceStreamReader, Generic[P]):
    """Plans whenever there is something new, and once a heartbeat when there is not."""

    def __init__(self, poll_ms: int, heartbeat_ms: int, pulse: str) -> None:
        """`pulse`: the file that is touched at each step, whichever process takes it."""
        self._poll_s, self._heartbeat_s = poll_ms / 1000, heartbeat_ms / 1000
        self._step = partial(touch, pulse)
        self._planner: Planner[P] | None = None
        self._number = 0
        self._plan: P | None = None
        self._planned_at = 0.0

    @abstractmethod
    def planner(self) -> Planner[P]:
        """Returns the planner. Called once, in the process that plans."""

    def initialOffset(self) -> dict[str, Any]:
        return {"plan": 0}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        """Blocks until there is a plan worth a micro-batch (new records, or a heartbeat that is due), and returns its
        number."""
        if self._planner is None:
            self._planner = self.planner()
        while True:
            wait = self._planned_at + self._poll_s - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            with heard_by(self._step):
                plan = self._planner.plan()
            self._step()
            due = time.monotonic() - self._planned_at >= self._heartbeat_s
            if plan.has_data or due:
                break
            time.sleep(self._poll_s)
        self._planner.advance(plan)
        self._plan, self._number, self._planned_at = plan, self._number + 1, time.monotonic()
        return {"plan": self._number}

    def current_plan(self, end: dict[str, Any]) -> P:
        """Returns the plan that ends at Spark's offset `end`. Raises RuntimeError if that is not the newest one."""
        if self._plan is None or end["plan"] != self._number:
            raise RuntimeError(f"plan {end['plan']} is not the one at hand ({self._number}): restart from the store")
        return self._plan

    @abstractmethod
    def read_rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the task `partition`, in a worker."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of `read_rows`, and reports its steps as the planner's are reported."""
        with heard_by(self._step), encoding_failures():
            yield from self.read_rows(partition)

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()

"""A Spark stream reader that plans micro-batches by asking Kafka: the base of sources that read logs to their ends.

Spark 4.3 uses it in two places (python_streaming_source_runner.py). One reader object in one driver-side process plans
as long as the query runs; `read` runs in pooled workers, on a pickled copy.
"""

from __future__ import annotations

import math
import re
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from service.domain.reasons.coding import decode, encode
from service.domain.reasons.reason import Reason
from service.kafka.errors import KafkaFailure
from service.processes.waiting import heard_by, touch
from spark_jobs.runtime.direct_batches import DirectBatches


class EncodedFailure(Exception):
    """An exception with an encoded reason as its text."""


_ENCODED = re.compile(rf"\b{EncodedFailure.__module__}\.{EncodedFailure.__name__}: (\{{.+\}})\s*$", re.MULTILINE)


@contextmanager
def encoding_failures() -> Iterator[None]:
    """Raises a KafkaFailure of the block as EncodedFailure."""
    try:
        yield
    except KafkaFailure as e:
        raise EncodedFailure(encode(e.reason)) from e


def encoded_reason(text: str) -> Reason | None:
    """Returns the last encoded reason in Spark's message about a query that ended; None if there is none."""
    found = _ENCODED.findall(text)
    try:
        return decode(found[-1]) if found else None
    except ValueError:
        return None


class Planned(Protocol):
    @property
    def has_data(self) -> bool: ...


P = TypeVar("P", bound=Planned)


class Planner(Protocol[P]):
    def plan(self) -> P: ...

    def advance(self, plan: P) -> None: ...

    def close(self) -> None: ...


class PlanningReader(DataSourceStreamReader, Generic[P]):
    """Plans a batch whenever there are new records, and otherwise at each heartbeat. The batches of heartbeats go to
    the driver directly, except one every THROUGH_SPARK_EVERY_S."""

    def __init__(self, options: dict[str, str]) -> None:
        """`options`: `pollms` and `heartbeatms`; `pulse`, the file that is touched at each step, whichever process
        takes it; `direct`, the folder of the query's DirectBatches; `cores`, the number of tasks that run at once."""
        self._poll_s, self._heartbeat_s = int(options["pollms"]) / 1000, int(options["heartbeatms"]) / 1000
        self._step = partial(touch, options["pulse"])
        self._direct = DirectBatches(options["direct"])
        self._planner: Planner[P] | None = None
        self._number = 0
        self._plan: P | None = None
        self._planned_at = self._through_spark_at = -math.inf

    @abstractmethod
    def planner(self) -> Planner[P]:
        """Returns the planner. Called once, in the process that plans."""

    def initialOffset(self) -> dict[str, Any]:
        return {"plan": 0}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        """Blocks until there is a plan worth a micro-batch (new records, or a heartbeat that proves that Spark works),
        and returns its number."""
        if self._planner is None:
            self._planner = self.planner()
        while True:
            wait = self._planned_at + self._poll_s - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            with heard_by(self._step):
                plan = self._planner.plan()
            self._step()
            is_due = time.monotonic() - self._planned_at >= self._heartbeat_s
            if plan.has_data or (is_due and not self._direct.may_take(self._through_spark_at)):
                break
            if is_due:
                self._direct.put(row for task in self.tasks(plan) for row in self.read_rows(task))
                self._planner.advance(plan)
                self._planned_at = time.monotonic()
            time.sleep(self._poll_s)
        self._planner.advance(plan)
        self._plan, self._number = plan, self._number + 1
        self._planned_at = self._through_spark_at = time.monotonic()
        return {"plan": self._number}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self.tasks(self.current_plan(end))

    @abstractmethod
    def tasks(self, plan: P) -> Sequence[InputPartition]:
        """Returns the tasks that read `plan`, at least one."""

    def current_plan(self, end: dict[str, Any]) -> P:
        """Returns the plan that ends at Spark's offset `end`. Raises RuntimeError if that is not the newest one."""
        if self._plan is None or end["plan"] != self._number:
            raise RuntimeError(f"plan {end['plan']} is not the newest one ({self._number}): restart from the store")
        return self._plan

    @abstractmethod
    def read_rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the task `partition`: in a worker, or in the planner if the task has no data to read."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of `read_rows`, and reports its steps in the same way as the planner's."""
        with heard_by(self._step), encoding_failures():
            yield from self.read_rows(partition)

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()

"""A Spark stream reader that plans each micro-batch from the brokers' answers. The base of sources that read logs to
their ends.

Spark 4.3 uses a reader in two places (python_streaming_source_runner.py). One reader object, in a process beside the
driver, plans as long as the query runs. `read` runs in pooled workers, on a pickled copy.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final, Generic, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from service.domain.reasons.reason import Reason
from service.processes.waiting import heard_by, touch
from spark_jobs.fold.rows import SCHEMA, trouble_to_rows
from spark_jobs.runtime.direct_batches import DirectBatches
from spark_jobs.runtime.error_summary import encoding_failures
from spark_jobs.source.admission import Range, into_tasks
from spark_jobs.source.planner import BatchPlan
from spark_jobs.source.reader_settings import OPTION, ReaderSettings

HEARTBEAT_S: Final = 1.0


class KafkaSource(DataSource):
    """A streaming DataSource. A subclass names the `reader_class`, which gets the options of the source."""

    reader_class: ClassVar[type[DataSourceStreamReader]]

    def schema(self) -> StructType:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return self.reader_class(dict(self.options))  # type: ignore[call-arg]


@dataclass(frozen=True)
class ReadTask(InputPartition, Generic[Range]):
    """The ranges that one Spark task reads. Only the first task of a batch has the `trouble`."""

    ranges: tuple[Range, ...]
    trouble: Reason | None


class Planner(Protocol[Range]):
    def plan(self) -> BatchPlan[Range]: ...

    def advance(self, plan: BatchPlan[Range]) -> None: ...

    def close(self) -> None: ...


class PlanningReader(DataSourceStreamReader, Generic[Range]):
    """Makes a batch whenever a plan has data (`BatchPlan.has_data`), and otherwise at each heartbeat. The batch of a
    heartbeat goes to the driver without Spark if `DirectBatches.may_take` returns True. `poll_s`: the pause (s) between
    two plans."""

    poll_s: ClassVar[float]

    def __init__(self, options: dict[str, str]) -> None:
        """`options` contains the ReaderSettings and three more values. `pulse`: the file that every process of this
        reader touches to report progress. `direct`: the folder of the query's DirectBatches. `cores`: the number of
        tasks that run at once."""
        self._settings = ReaderSettings.model_validate_json(options[OPTION])
        self._step = partial(touch, options["pulse"])
        self._direct = DirectBatches(options["direct"])
        self._cores = int(options["cores"])
        self._planner: Planner[Range] | None = None
        self._number = 0
        self._plan: BatchPlan[Range] | None = None
        self._planned_at = self._through_spark_at = -math.inf

    @abstractmethod
    def planner(self) -> Planner[Range]:
        """Returns the planner. Called once, in the process that plans."""

    def initialOffset(self) -> dict[str, Any]:
        return {"plan": 0}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        """Blocks until a plan is worth a micro-batch: until it has data (`BatchPlan.has_data`), or is a heartbeat that
        has to go through Spark. Returns the number of the plan."""
        if self._planner is None:
            self._planner = self.planner()
        while True:
            wait = self._planned_at + self.poll_s - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            with heard_by(self._step):
                plan = self._planner.plan()
            self._step()
            is_due = time.monotonic() - self._planned_at >= HEARTBEAT_S
            if plan.has_data or (is_due and not self._direct.may_take(self._through_spark_at)):
                break
            if is_due:
                self._direct.put(row for task in self._tasks(plan) for row in self._rows(task))
                self._planner.advance(plan)
                self._planned_at = time.monotonic()
            time.sleep(self.poll_s)
        self._planner.advance(plan)
        self._plan, self._number = plan, self._number + 1
        self._planned_at = self._through_spark_at = time.monotonic()
        return {"plan": self._number}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Returns the tasks of the plan that ends at Spark's offset `end`. Raises RuntimeError if that plan is not the
        newest one."""
        if self._plan is None or end["plan"] != self._number:
            raise RuntimeError(
                f"plan {end['plan']} is not the newest one ({self._number}): a new query must start from the store"
            )
        return self._tasks(self._plan)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a task. Reports progress as the planner does, by touching the `pulse` file."""
        assert isinstance(partition, ReadTask)
        with heard_by(self._step), encoding_failures():
            yield from self._rows(partition)

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()

    @abstractmethod
    def read_ranges(self, ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the ranges. Called in a worker, or in the planner if the batch goes to the driver without
        Spark."""

    def _tasks(self, plan: BatchPlan[Range]) -> list[ReadTask[Range]]:
        tasks = into_tasks(plan.ranges, self._cores)
        return [ReadTask(tuple(task), None if i else plan.trouble) for i, task in enumerate(tasks)]

    def _rows(self, task: ReadTask[Range]) -> Iterator[pa.RecordBatch]:
        if task.trouble is not None:
            yield trouble_to_rows(task.trouble)
        yield from self.read_ranges(task.ranges)

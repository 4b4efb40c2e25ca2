"""The Spark streaming DataSource over `__transaction_state`: Spark's interface, nothing else.

How Spark 4.3 talks to it (python_streaming_source_runner.py): one reader object in one driver-side process plans, as
long as the query runs; `read` runs in pooled workers, on a pickled copy.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from service.domain.facts import RangeRead
from service.domain.transaction_log import TOPIC
from service.kafka.settings import ClientSettings
from spark_jobs.rows import SCHEMA, trouble_to_rows
from spark_jobs.source import position
from spark_jobs.source.admission import Limits, into_tasks
from spark_jobs.source.planner import LogPlanner, Plan, wall_clock_ms
from spark_jobs.source.reader import read_ranges


@dataclass(frozen=True)
class LogTask(InputPartition):
    """What one Spark task reads; `trouble` travels with the first task."""

    ranges: tuple[RangeRead, ...]
    trouble: str | None


class TransactionLogReader(DataSourceStreamReader):
    """Plans whenever there is something new, and once a heartbeat when there is not."""

    def __init__(self, options: dict[str, str]) -> None:
        self._settings = ClientSettings.from_json(options["client"])
        self._positions = position.from_json(options["positions"])
        self._kept = tuple(prefix.encode() for prefix in json.loads(options["kept"]))
        self._limits = Limits(records=int(options["records"]))
        self._cores = int(options["cores"])
        self._poll_s = int(options["pollms"]) / 1000
        self._heartbeat_s = int(options["heartbeatms"]) / 1000
        self._planner: LogPlanner | None = None
        self._number = 0
        self._plan = Plan((), None)
        self._planned_at = 0.0

    def initialOffset(self) -> dict[str, Any]:
        return {"plan": 0}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        """Block until there is a plan worth a micro-batch: new records, or a heartbeat that is due."""
        if self._planner is None:
            self._planner = LogPlanner(self._settings, TOPIC, self._positions, self._limits, wall_clock_ms)
        while True:
            wait = self._planned_at + self._poll_s - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            plan = self._planner.plan()
            due = time.monotonic() - self._planned_at >= self._heartbeat_s
            if plan.has_data or due:
                break
            time.sleep(self._poll_s)
        self._planner.advance(plan)
        self._plan, self._number, self._planned_at = plan, self._number + 1, time.monotonic()
        return {"plan": self._number}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if end["plan"] != self._number:
            raise RuntimeError(f"plan {end['plan']} is not the one at hand ({self._number}): restart from the store")
        tasks = into_tasks(self._plan.ranges, self._cores)
        return [LogTask(tuple(task), None if i else self._plan.trouble) for i, task in enumerate(tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogTask)
        if partition.trouble:
            yield trouble_to_rows(partition.trouble)
        yield from read_ranges(self._settings, TOPIC, partition.ranges, self._kept)

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()


class TransactionLogSource(DataSource):
    """`spark.readStream.format("txnscope_transaction_log")`; options as in `source_options`."""

    @classmethod
    def name(cls) -> str:
        return "txnscope_transaction_log"

    def schema(self) -> StructType:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return TransactionLogReader(dict(self.options))


def source_options(
    settings: ClientSettings,
    positions: dict[int, position.LogPosition],
    cores: int,
    poll_ms: int,
    heartbeat_ms: int,
    kept: Sequence[str] = (),
) -> dict[str, str]:
    """Options of the source: everything it needs to know, as Spark hands it on (strings, keys in lower case).

    `kept`: prefixes of ids of which every transition is handed over.
    """
    return {
        "client": settings.to_json(),
        "positions": position.to_json(positions),
        "records": json.dumps(Limits().records),
        "cores": str(cores),
        "pollms": str(poll_ms),
        "heartbeatms": str(heartbeat_ms),
        "kept": json.dumps(list(kept)),
    }

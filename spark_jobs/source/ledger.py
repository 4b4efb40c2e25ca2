"""The Spark streaming DataSource that tails data partitions: Spark's interface, nothing else (docs/adr/0008)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from service.clock import wall_clock_ms
from service.domain.partitions.ledger import TopicRange
from service.domain.reasons.reason import Reason
from spark_jobs.fold.rows import SCHEMA, trouble_to_rows
from spark_jobs.source import log_identity
from spark_jobs.source.admission import into_tasks
from spark_jobs.source.ledger_planner import LedgerBrokers, LedgerPlan, LedgerPlanner
from spark_jobs.source.ledger_reader import read_tails
from spark_jobs.source.reader_settings import OPTION, ReaderSettings
from spark_jobs.source.stream_reader import PlanningReader


@dataclass(frozen=True)
class LedgerTask(InputPartition):
    """The ranges that one Spark task reads. Only the first task of a batch has the `trouble`."""

    ranges: tuple[TopicRange, ...]
    trouble: Reason | None


class LedgerReader(PlanningReader[LedgerPlan]):
    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        settings = ReaderSettings.model_validate_json(options[OPTION])
        self._client, self._watch = settings.client, settings.watch
        self._positions = {
            topic: log_identity.from_json(text) for topic, text in json.loads(options["positions"]).items()
        }
        self._cores = int(options["cores"])

    def planner(self) -> LedgerPlanner:
        return LedgerPlanner(LedgerBrokers(self._client), self._watch, self._positions, wall_clock_ms)

    def tasks(self, plan: LedgerPlan) -> Sequence[LedgerTask]:
        tasks = into_tasks(plan.ranges, self._cores)
        return [LedgerTask(tuple(task), None if i else plan.trouble) for i, task in enumerate(tasks)]

    def read_rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LedgerTask)
        if partition.trouble is not None:
            yield trouble_to_rows(partition.trouble)
        yield from read_tails(self._client, partition.ranges, wall_clock_ms)


class LedgerSource(DataSource):
    """`spark.readStream.format("txnscope_ledger")`; options as in `ledger_options`."""

    @classmethod
    def name(cls) -> str:
        return "txnscope_ledger"

    def schema(self) -> StructType:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return LedgerReader(dict(self.options))


def ledger_options(
    settings: ReaderSettings,
    positions: Mapping[str, Mapping[int, log_identity.LogPosition]],
    poll_ms: int,
    heartbeat_ms: int,
    pulse: str = "",
) -> dict[str, str]:
    """Returns the options of the source in the form in which Spark passes them on (strings, keys in lower case).

    `positions`: by topic; `pulse`: a file that is touched at each step.
    """
    return {
        **settings.option,
        "positions": json.dumps({topic: log_identity.to_json(of_topic) for topic, of_topic in positions.items()}),
        "pollms": str(poll_ms),
        "heartbeatms": str(heartbeat_ms),
        "pulse": pulse,
    }

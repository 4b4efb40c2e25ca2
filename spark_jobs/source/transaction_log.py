"""The Spark streaming DataSource over `__transaction_state`: Spark's interface, nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from service.clock import wall_clock_ms
from service.domain.reasons.coding import decode_if, encode_if
from service.domain.reasons.reason import Reason
from service.domain.reasons.unread import PartitionsUnreadable
from service.domain.transaction_log.facts import RangeRead
from service.domain.transaction_log.states import TOPIC
from spark_jobs.fold.rows import SCHEMA, trouble_to_rows
from spark_jobs.source import log_identity
from spark_jobs.source.admission import BatchLimits, into_tasks
from spark_jobs.source.planner import BatchPlan, LogPlanner
from spark_jobs.source.reader import read_ranges
from spark_jobs.source.reader_settings import OPTION, ReaderSettings
from spark_jobs.source.stream_reader import PlanningReader


@dataclass(frozen=True)
class LogTask(InputPartition):
    """The ranges that one Spark task reads. Only the first task of a batch has the `trouble`."""

    ranges: tuple[RangeRead, ...]
    trouble: Reason | None


class TransactionLogReader(PlanningReader[BatchPlan]):
    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        settings = ReaderSettings.model_validate_json(options[OPTION])
        self._client, self._with_decisions = settings.client, settings.tails
        self._history_prefixes = tuple(prefix.encode() for prefix in settings.full_history_prefixes)
        self._positions = log_identity.from_json(options["positions"])
        self._limits = BatchLimits(records=int(options["records"]))
        self._cores = int(options["cores"])
        unreadable = decode_if(options["unreadable"] or None)
        self._unreadable = unreadable if isinstance(unreadable, PartitionsUnreadable) else None

    def planner(self) -> LogPlanner:
        return LogPlanner(self._client, TOPIC, self._positions, self._limits, wall_clock_ms, self._unreadable)

    def tasks(self, plan: BatchPlan) -> Sequence[LogTask]:
        tasks = into_tasks(plan.ranges, self._cores)
        return [LogTask(tuple(task), None if i else plan.trouble) for i, task in enumerate(tasks)]

    def read_rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogTask)
        if partition.trouble is not None:
            yield trouble_to_rows(partition.trouble)
        yield from read_ranges(
            self._client, TOPIC, partition.ranges, self._history_prefixes, with_decisions=self._with_decisions
        )


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
    settings: ReaderSettings,
    positions: dict[int, log_identity.LogPosition],
    poll_ms: int,
    heartbeat_ms: int,
    pulse: str = "",
    unreadable: PartitionsUnreadable | None = None,
) -> dict[str, str]:
    """Returns the options of the source in the form in which Spark passes them on (strings, keys in lower case).

    `pulse`: a file that is touched at each step. `unreadable`: the partitions that ended the query before.
    """
    return {
        **settings.option,
        "positions": log_identity.to_json(positions),
        "records": json.dumps(BatchLimits().records),
        "pollms": str(poll_ms),
        "heartbeatms": str(heartbeat_ms),
        "pulse": pulse,
        "unreadable": encode_if(unreadable) or "",
    }
